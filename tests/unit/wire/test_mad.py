"""The communication manager's handshake, as tshark reads it, and what is too short for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.kernel.process.process import find_tool, run
from lab.wire.frame import decode
from lab.wire.mad import Mad, parse
from lab.wire.summary import describe
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from pathlib import Path

REQ = packets.request_connection(0xAB01, 0x11, 4711)
REP = packets.accept_connection(0xCD02, 0xAB01, 0x22, 815)


def test_qpns_and_psns_are_those_that_tshark_reads(tmp_path: Path) -> None:
    file = tmp_path / "cm.pcapng"
    file.write_bytes(pcapng(records([REQ, REP])))
    transactions = run(
        [find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", "-einfiniband.mad.transactionid"]
    )
    assert [int(line, 0) for line in transactions.stdout.split()] == [5, 5]
    fields = [f"-einfiniband.cm.{kind}.{name}" for kind in ("req", "rep") for name in ("localqpn", "startpsn")]
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", *fields])
    theirs = [[int(word, 0) for word in line.split("\t") if word] for line in done.stdout.splitlines()]
    ours = [decode(frame).mad for frame in (REQ, REP)]
    assert theirs == [[0x11, 4711], [0x22, 815]]
    assert ours == [
        Mad("CM REQ", 0xAB01, None, 0x11, 4711, 5), Mad("CM REP", 0xCD02, 0xAB01, 0x22, 815, 5),
    ]  # fmt: skip


def test_in_a_line() -> None:
    assert "CM REQ  ID 0xab01  own QP 0x000011 first PSN 4711" in describe(decode(REQ))
    assert "CM RTU  ID 0x5  to ID 0x6" in describe(
        decode(packets.management(packets.THERE, 0x14, b"\0\0\0\5\0\0\0\6"))
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", None),
        (bytes(24), None),
        (b"\x01\x81" + bytes(22), Mad("SMP, directed route")),
        (b"\x01\x04" + bytes(22), Mad("performance management")),
        (b"\x01\x55" + bytes(22), Mad("management class 0x55")),
        (b"\x01\x07" + bytes(14) + b"\0\x10" + bytes(6), Mad("CM")),
        (b"\x01\x07" + bytes(14) + b"\0\x10" + bytes(6) + bytes(40), Mad("CM REQ", 0, transaction=0)),
    ],
)
def test_others_are_named_and_what_is_cut_is_left_out(data: bytes, told: Mad | None) -> None:
    assert parse(data) == told
