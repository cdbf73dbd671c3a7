"""Numbers of the protocol that stand in one place of the source: RoCEv2's UDP port, and half of the ring of PSNs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lab

ROOM = Path(lab.__file__).parent
HALF = 1 << 23


def numbers(source: str) -> set[int]:
    """Numbers that a module writes, also as a power or a shift of two others."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=int(value)):
                found.add(value)
            case ast.BinOp(ast.Constant(value=int(base)), ast.Pow(), ast.Constant(value=int(power))) if power < 64:
                found.add(base**power)
            case ast.BinOp(ast.Constant(value=int(base)), ast.LShift(), ast.Constant(value=int(power))):
                found.add(base << power)
    return found


@pytest.mark.parametrize(
    ("number", "home"), [(4791, "wire/udp_ports.py"), (HALF, "wire/headers.py")], ids=["port", "half of the ring"]
)
def test_it_is_declared_once(number: int, home: str) -> None:
    writing = [path for path in sorted(ROOM.rglob("*.py")) if number in numbers(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOM)) for path in writing] == [home]


@pytest.mark.parametrize("written", ["8388608", "0x800000", "2**23", "-(2**23)", "1 << 23"])
def test_it_is_found_however_it_is_written(written: str) -> None:
    assert HALF in numbers(f"_HALF = {written}")
