"""What tshark and our decoder say of a RoCEv2 packet, field by field and under the same names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from lab.kernel.process.process import find_tool, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.wire.frame import DecodedFrame

_PLAIN: Final = tuple(word for name in ("rpcordma", "infiniband.eoib") for word in ("--disable-protocol", name))
"""Guesses about what RDMA carries, which would stop at our payloads before they come to the ICRC."""


_FLAGS: Final = {"True": "1", "False": "0"}
"""As tshark 4.4 prints bits; 4.0 prints digits."""


def ask_tshark(file: Path, *fields: str, options: Sequence[str] = ()) -> list[list[str]]:
    """A row of ``fields`` for each packet of a capture file."""
    wanted = [word for field in fields for word in ("-e", field)]
    done = run([find_tool("tshark", "tshark"), "-n", *_PLAIN, *options, "-r", file, "-T", "fields", *wanted])
    return [[_FLAGS.get(cell, cell) for cell in line.split("\t")] for line in done.stdout.splitlines()]


@cache
def known_to_tshark() -> frozenset[int]:
    """The opcodes that this tshark has a name for; of a packet with another one it reads nothing after the BTH.

    4.0 knows neither 0x81, the CNP, nor FLUSH and ATOMIC WRITE of annex A19; 4.4 knows these two.
    """
    values = run([find_tool("tshark", "tshark"), "-G", "values"]).stdout
    rows = (line.split("\t") for line in values.splitlines())
    return frozenset(int(row[2]) for row in rows if row[:2] == ["V", "infiniband.bth.opcode"])


BTH_FIELDS: Final = ("opcode", "se", "m", "padcnt", "tver", "p_key", "destqp", "a", "psn")
FIELDS: Final = (
    *(f"infiniband.bth.{name}" for name in BTH_FIELDS),
    "infiniband.deth.q_key",
    "infiniband.deth.srcqp",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.atomiceth.swapdt",
    "infiniband.atomiceth.cmpdt",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.msn",
    "infiniband.atomicacketh.origremdt",
    "infiniband.immdt",
    "infiniband.ieth",
    "infiniband.invariant.crc",
)


def ours(frame: DecodedFrame, data: bytes) -> dict[str, int]:
    """What ``decode`` says, under tshark's names; headers that are not there, or that it skips, are left out."""
    bth = frame.bth
    assert bth is not None
    said: dict[str, int] = dict(
        zip(
            FIELDS,
            (
                bth.opcode,
                bth.solicited,
                bth.migreq,
                bth.pad,
                bth.tver,
                bth.pkey,
                bth.destqp,
                bth.ackreq,
                bth.psn,
            ),
            strict=False,
        )
    )
    if bth.opcode not in known_to_tshark():
        return said
    if frame.deth is not None:
        said |= {"infiniband.deth.q_key": frame.deth.qkey, "infiniband.deth.srcqp": frame.deth.srcqp}
    where = frame.reth or frame.atomiceth
    if where is not None:
        said |= {"infiniband.reth.va": where.va, "infiniband.reth.r_key": where.rkey}
    if frame.reth is not None:
        said["infiniband.reth.dmalen"] = frame.reth.dmalen
    if frame.atomiceth is not None:
        said["infiniband.atomiceth.swapdt"] = frame.atomiceth.swapdt
        said["infiniband.atomiceth.cmpdt"] = frame.atomiceth.cmpdt
    if frame.aeth is not None:
        said["infiniband.aeth.syndrome"] = frame.aeth.syndrome.octet
        said["infiniband.aeth.msn"] = frame.aeth.msn
    for name, value in (
        ("infiniband.atomicacketh.origremdt", frame.origremdt),
        ("infiniband.immdt", frame.immdt),
        ("infiniband.ieth", frame.ieth),
    ):
        if value is not None:
            said[name] = value
    return said | {"infiniband.invariant.crc": int.from_bytes(data[-4:])}


def theirs(row: Sequence[str]) -> dict[str, int]:
    """What tshark says in a row of ``FIELDS``; what it says nothing about is left out."""
    return {name: _number(name, cell) for name, cell in zip(FIELDS, row, strict=True) if cell}


def _number(name: str, cell: str) -> int:
    first = cell.split(",", maxsplit=1)[0]  # after a RETH, tshark names the immediate data twice
    return int(first, 16 if name in _BYTES else 0)


_BYTES: Final = ("infiniband.immdt", "infiniband.ieth")
"""Fields that tshark prints as bytes."""
