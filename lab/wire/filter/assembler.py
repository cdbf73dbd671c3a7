"""Assemble classic BPF with labels (Documentation/networking/filter.rst); all jumps are forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.wire.header_fields import Bits

# Instruction codes from <linux/bpf_common.h> and <linux/filter.h>.
LD_BYTE: Final = 0x50
"""A = the byte at X + k."""
LD_HALF: Final = 0x48
"""A = the two bytes at X + k."""
LD_WORD: Final = 0x40
"""A = the four bytes at X + k."""
LD_CONSTANT: Final = 0x00
LD_LENGTH: Final = 0x80
"""A = the length of the packet."""
LD_MEMORY: Final = 0x60
LDX_CONSTANT: Final = 0x01
LDX_MEMORY: Final = 0x61
STORE: Final = 0x02
STORE_X: Final = 0x03
ADD: Final = 0x04
AND: Final = 0x54
MULTIPLY: Final = 0x24
SHIFT_RIGHT: Final = 0x74
ADD_X: Final = 0x0C
SUBTRACT_X: Final = 0x1C
A_TO_X: Final = 0x07
X_TO_A: Final = 0x87
JUMP: Final = 0x05
JUMP_EQUAL: Final = 0x15
JUMP_GREATER: Final = 0x25
JUMP_NOT_LESS: Final = 0x35
JUMP_BITS: Final = 0x45
JUMP_GREATER_X: Final = 0x2D
RETURN: Final = 0x06

_LOADS: Final = {1: LD_BYTE, 2: LD_HALF, 4: LD_WORD}
"""The instruction that loads so many bytes."""
MAX_INSTRUCTIONS: Final = 4096
"""BPF_MAXINSNS: the kernel rejects longer programs."""
_FAR: Final = 255
"""The maximum distance of a conditional jump."""


class Instruction(NamedTuple):
    """struct sock_filter."""

    code: int
    jt: int
    jf: int
    k: int


class Label:
    """A position further down in the program."""


class _Item(NamedTuple):
    code: int
    k: int
    yes: Label | None = None
    no: Label | None = None


class Assembler:
    """Collects instructions and labels; ``finish`` replaces labels with distances."""

    def __init__(self) -> None:
        self._items: list[_Item | Label] = []

    def add(self, code: int, k: int = 0) -> None:
        """Add an instruction that is not a jump."""
        self._items.append(_Item(code, k))

    def load(self, bits: Bits, header: int = 0) -> None:
        """Load a field's value into A; its header begins ``header`` bytes after X."""
        self.load_word(bits, header)
        if bits.shift:
            self.add(SHIFT_RIGHT, bits.shift)
        if bits.most != (1 << 8 * bits.width) - 1 >> bits.shift:
            self.add(AND, bits.most)

    def load_word(self, bits: Bits, header: int = 0) -> None:
        """Load all bytes of a field into A, for a test of ``bits.deciding``."""
        self.add(_LOADS[bits.width], header + bits.at)

    def jump(self, code: int, k: int, yes: Label | None, no: Label | None) -> None:
        """Add a conditional jump; None continues with the next instruction."""
        self._items.append(_Item(code, k, yes, no))

    def go(self, to: Label) -> None:
        """Add an unconditional jump."""
        self._items.append(_Item(JUMP, 0, yes=to))

    def place(self, label: Label) -> None:
        """Place ``label`` here."""
        self._items.append(label)

    def finish(self) -> tuple[Instruction, ...]:
        """Return the program. It is built from its end, so that the distance of each jump is known.

        UsageError if it is longer than the kernel allows.
        """
        program: list[Instruction] = []  # backwards
        places: dict[Label, int] = {}  # counted from the end
        for item in reversed(self._items):
            if isinstance(item, Label):
                places[item] = len(program)
            elif item.code == JUMP and item.yes is not None:
                program.append(Instruction(JUMP, 0, 0, len(program) - places[item.yes]))
            else:
                _conditional(program, places, item)
        if len(program) > MAX_INSTRUCTIONS:
            raise UsageError(
                f"the filter needs {len(program)} instructions of the kernel's {MAX_INSTRUCTIONS}", "make it shorter"
            )
        return tuple(reversed(program))


def _conditional(program: list[Instruction], places: dict[Label, int], item: _Item) -> None:
    """Add a conditional jump. A target that is too far is reached by an unconditional jump after this one."""
    here = len(program)
    ways = [here if label is None else places[label] for label in (item.yes, item.no)]
    stubs: dict[int, int] = {}  # target, and position of the jump to it
    for way in dict.fromkeys(ways):
        if here - way + 2 > _FAR:  # two stubs may come in between
            program.append(Instruction(JUMP, 0, 0, len(program) - way))
            stubs[way] = len(program)
    # A way's distance counts the instructions between this one and its target.
    jt, jf = (len(program) - stubs.get(way, way) for way in ways)
    program.append(Instruction(item.code, jt, jf, item.k))
