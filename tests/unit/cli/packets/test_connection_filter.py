"""``conn==0x11``: a connection in both directions, whose other end the file tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import UsageError
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from pathlib import Path

OTHER = packets.Path("10.0.0.3", "10.0.0.2")
FRAMES = [
    packets.send(1),
    packets.send(700, qp=0x99),
    packets.ack(1),
    packets.send(900, path=OTHER, qp=0x33),
    packets.congestion(),
    packets.ack(900, path=packets.Path("10.0.0.2", "10.0.0.3"), qp=0x11),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "story.pcapng"
    made.write_bytes(pcapng(records(FRAMES)))
    return made


def rocelab(*words: str | Path) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, UsageError):
        raise done.exception
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["0x22", "0x11@10.0.0.1"])
def test_both_directions_and_nothing_else(file: Path, name: str) -> None:
    """QP 0x11 of 10.0.0.3 is another one, and 0x99 of the same hosts, too."""
    facts = rocelab("analyze", file, "--json", "--filter", f"conn=={name}")
    assert (facts["packets"], facts["left_out"]) == (3, 3)
    shown = rocelab("dissect", file, "--summary", "--json", "--filter", f"conn=={name} and not cnp")["packets"]
    assert [packet["number"] for packet in shown] == [1, 3]


def test_usage(file: Path) -> None:
    with pytest.raises(UsageError, match="conn==0x11 is in 2 connections"):
        rocelab("analyze", file, "--filter", "conn==0x11")
    with pytest.raises(UsageError, match="conn==0x77: no such queue pair"):
        rocelab("analyze", file, "--filter", "conn==0x77")
    with pytest.raises(UsageError, match="conn==0x11 reads - twice"):
        rocelab("analyze", "-", "--filter", "conn==0x11")
