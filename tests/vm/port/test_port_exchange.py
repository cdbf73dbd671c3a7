"""What one CPU clears while another sets it is exchanged: a plain store may pass the load behind it, on x86 as well.

No test can order two CPUs at will, so that the programs are judged as the verifier has them, by bpftool(8).
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.dataplane import port_layout
from lab.kernel.bpf import pins
from tests.vm.port_programs import Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("port_rx", "tick")
EXCHANGED = ("ticking", "busy")
"""Members of struct rl_node that say whether somebody else has to act."""


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


def translated(ports: Switch, program: str) -> str:
    """A program and its functions, an instruction a line: `(63) *(u32 *)(r1 +52) = r2`."""
    path = pins.program_path(pins.folder_of(ports.name), program)
    argv = ["bpftool", "prog", "dump", "xlated", "pinned", str(path)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def place(member: str) -> str:
    """A member of a node's record, as bpftool writes it."""
    assert port_layout.NODE.fields is not None
    return rf"\(u{8 * port_layout.NODE[member].itemsize} \*\)\(r\d \+{port_layout.NODE.fields[member][1]}\)"


def stores(code: str, member: str) -> list[str]:
    """Plain stores to where a node's record has a member."""
    return re.findall(rf"\*{place(member)} = \S+", code)


@pytest.mark.parametrize("member", EXCHANGED)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_stored_where_it_has_to_be_exchanged(built: Switch, program: str, member: str) -> None:
    code = translated(built, program)
    assert stores(code, member) == []
    assert re.search(rf"xchg\S*\({place(member)}", code)


def test_a_plain_store_would_be_seen(built: Switch) -> None:
    """The clock's own time is written by one alone, and plainly."""
    assert stores(translated(built, "tick"), "tick_at")
