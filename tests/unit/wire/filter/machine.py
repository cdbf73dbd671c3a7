"""A classic BPF machine, from the kernel's description of it (Documentation/networking/filter.rst)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.wire.filter.assembler import Instruction

_SIZES = {0x00: 4, 0x08: 2, 0x10: 1}
_BITS = 0xFFFFFFFF


def check(program: Sequence[Instruction]) -> None:
    """What bpf_check_classic asks for: bounds of jumps and memory, a return at the end, no cell read unwritten."""
    assert 0 < len(program) <= 4096
    assert program[-1].code in {0x06, 0x16}
    written: dict[int, int] = {0: 0}
    for at, (code, jt, jf, k) in enumerate(program):
        valid = written.get(at, 0xFFFF)
        targets = [at + 1]
        if code in {0x02, 0x03}:
            assert k < 16
            valid |= 1 << k
        elif code in {0x60, 0x61}:
            assert valid >> k & 1, f"instruction {at} reads cell {k}"
        elif code == 0x05:
            targets = [at + 1 + k]
        elif code & 7 == 5:
            assert 0 <= jt < 256
            assert 0 <= jf < 256
            targets = [at + 1 + jt, at + 1 + jf]
        elif code & 7 == 6:
            targets = []
        for target in targets:
            assert target < len(program)
            written[target] = written.get(target, 0xFFFF) & valid


def run(program: Sequence[Instruction], packet: bytes) -> int:  # noqa: C901 - one branch for each instruction
    """What the program returns: how many bytes of the packet to keep."""
    a = x = at = 0
    cells = [0] * 16
    while True:
        code, jt, jf, k = program[at]
        at += 1
        kind, operand = code & 7, x if code & 8 and code & 7 in {4, 5} else k
        if kind == 6:
            return k
        if code in {0x02, 0x03}:
            cells[k] = a if code == 0x02 else x
        elif code in {0x60, 0x61}:
            a, x = (cells[k], x) if code == 0x60 else (a, cells[k])
        elif code in {0x00, 0x01}:
            a, x = (k, x) if code == 0x00 else (a, k)
        elif code == 0x80:
            a = len(packet)
        elif kind == 0 and code & 0xE0 == 0x40:
            size = _SIZES[code & 0x18]
            if x + k + size > len(packet):
                return 0
            a = int.from_bytes(packet[x + k : x + k + size])
        elif kind == 7:
            a, x = (a, a) if code == 0x07 else (x, x)
        elif kind == 4:
            a = _compute(code & 0xF0, a, operand)
        elif code == 0x05:
            at += k
        else:
            at += jt if _holds(code & 0xF0, a, operand) else jf


def _compute(operation: int, a: int, operand: int) -> int:
    results = {
        0x00: a + operand, 0x10: a - operand, 0x20: a * operand, 0x50: a & operand, 0x60: a << (operand & 31),
        0x70: a >> (operand & 31),
    }  # fmt: skip
    return results[operation] & _BITS


def _holds(operation: int, a: int, operand: int) -> bool:
    return {0x10: a == operand, 0x20: a > operand, 0x30: a >= operand, 0x40: bool(a & operand)}[operation]
