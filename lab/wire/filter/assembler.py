"""Classic BPF with labels (Documentation/networking/filter.rst): jumps lead forward, and find their distance here."""

from __future__ import annotations

from typing import Final, NamedTuple

from lab.errors import UsageError

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
LDX_MEMORY: Final = 0x61
STORE: Final = 0x02
STORE_X: Final = 0x03
ADD: Final = 0x04
AND: Final = 0x54
SHIFT_LEFT: Final = 0x64
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

MAX_INSTRUCTIONS: Final = 4096
"""BPF_MAXINSNS: the kernel takes no longer program."""
_FAR: Final = 255
"""The farthest that a conditional jump reaches."""


class Instruction(NamedTuple):
    """struct sock_filter."""

    code: int
    jt: int
    jf: int
    k: int


class Label:
    """A place further down in the program."""


class _Item(NamedTuple):
    code: int
    k: int
    yes: Label | None = None
    no: Label | None = None


class Assembler:
    """Collects instructions and labels; ``finish`` turns labels into distances."""

    def __init__(self) -> None:
        self._items: list[_Item | Label] = []

    def add(self, code: int, k: int = 0) -> None:
        """An instruction that is no jump."""
        self._items.append(_Item(code, k))

    def jump(self, code: int, k: int, yes: Label | None, no: Label | None) -> None:
        """A conditional jump; None goes on with the next instruction."""
        self._items.append(_Item(code, k, yes, no))

    def go(self, to: Label) -> None:
        """Jump always."""
        self._items.append(_Item(JUMP, 0, yes=to))

    def place(self, label: Label) -> None:
        """``label`` is here."""
        self._items.append(label)

    def finish(self) -> tuple[Instruction, ...]:
        """The program. It grows from its end, so that every jump's distance is known when it is met.

        UsageError when it is longer than the kernel allows.
        """
        program: list[Instruction] = []  # backwards
        places: dict[Label, int] = {}  # instructions from the end on
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
    """A jump with two ways, or none; where one leads too far, over an unconditional jump behind this one."""
    here = len(program)
    ways = [here if label is None else places[label] for label in (item.yes, item.no)]
    stubs: dict[int, int] = {}  # where to, and where the jump to there is
    for way in dict.fromkeys(ways):
        if here - way + 2 > _FAR:  # two more may come between
            program.append(Instruction(JUMP, 0, 0, len(program) - way))
            stubs[way] = len(program)
    # A way's distance counts the instructions between this one and its target.
    jt, jf = (len(program) - stubs.get(way, way) for way in ways)
    program.append(Instruction(item.code, jt, jf, item.k))
