"""``rocelab analyze --qp``: every packet of a connection on some rung, and no line longer than a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import UsageError
from lab.kernel.process.process import find_tool, run
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.journeys import LINKS, Journeys

if TYPE_CHECKING:
    from pathlib import Path

NAK, RNR = 0x60, 0x2E


def story() -> Journeys:
    """A WRITE whose second packet is lost before the second link, a CNP, a pause, and somebody else's packets."""
    told = Journeys(LINKS[:2])
    for index, frame in enumerate(packets.write(40, 4)):
        told.there(index * 10_000, frame, lost=1 if index == 1 else None)
    told.there(5_000, packets.send(7, qp=0x99))
    told.back(35_000, packets.congestion())
    told.back(40_000, packets.ack(41, NAK))
    told.taken += [(50_000, 1, 2, packets.pause({3: 0xFFFF})), (60_000, 1, 2, packets.pause({3: 0}))]
    told.taken += [(55_000, 1, 2, b"\x02" + packets.pause({3: 0xFFFF})[1:])]  # its receiver ignores it
    for index, frame in enumerate(packets.write(40, 4)[1:]):
        told.there(100_000 + index * 10_000, frame)
    told.back(200_000, packets.ack(43))
    return told


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cli.tables.ladder_view.stdout", Console(width=80))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "story.pcapng"
    made.write_bytes(story().capture())
    return made


def analyze(file: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["analyze", str(file), *words])
    if isinstance(done.exception, UsageError):
        raise done.exception
    return done.stdout


def rungs(file: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(analyze(file, "--json", "--qp", *words))["rungs"]
    return found


def test_a_ladder_at_80_columns(file: Path) -> None:
    drawn = analyze(file, "--qp", "0x22").splitlines()
    assert max(map(len, drawn)) <= 80
    told = [line.split(None, 1)[1].strip("|<>- ·") for line in drawn[1:-1]]
    assert told == [
        "WRITE PSN 40..43 (4.096 KB)",
        "CNP",
        "NAK PSN 41 PSN Sequence Error",
        "XOFF priority 3 sent by leaf1:swp1",
        "XON priority 3 sent by leaf1:swp1",
        "WRITE PSN 41..43 (3.072 KB) again",
        "ACK PSN 43",
    ]
    assert drawn[0].split() == ["at", "s", "10.0.0.1", "QP", "0x11", "10.0.0.2", "QP", "0x22"]
    assert drawn[-1] == "as seen at h1:eth1; pauses at h1:eth1, leaf1:swp1"
    assert "|- WRITE" in drawn[1]
    assert drawn[1].endswith("->|")
    assert "|<-" in drawn[2]


def test_either_qp_names_the_connection(file: Path) -> None:
    assert rungs(file, "0x11") == rungs(file, "0x22") == rungs(file, "0x22@10.0.0.2")


def test_json_has_times_and_places(file: Path) -> None:
    first, cnp, nak, xoff, xon, again, ack = rungs(file, "0x22")
    assert (first["psn"], first["last"], first["packets"], first["bytes"]) == (40, 43, 4, 4096)
    assert (first["time"], first["end"]) == pytest.approx((0, 30e-6))
    assert (cnp["kind"], cnp["there"], cnp["psn"]) == ("CNP", False, None)
    assert (nak["kind"], nak["time"]) == ("NAK", pytest.approx(41e-6))
    assert (xoff["kind"], xoff["priority"], xoff["quanta"], xoff["there"]) == ("XOFF", 3, 0xFFFF, None)
    assert (xon["kind"], again["again"], ack["psn"]) == ("XON", True, 43)


def test_what_is_missing_stands_where_it_is_missing(file: Path) -> None:
    """At the second link only; and none of the QP that is not ours."""
    lossy = Journeys(LINKS[1:2])
    lossy.taken = [(time, 0, way, frame) for time, link, way, frame in story().taken if link == 1]
    file.write_bytes(lossy.capture())
    drawn = analyze(file, "--qp", "0x22")
    assert "WRITE PSN 42..43 (2.048 KB) 1 missing before" in drawn
    assert "PSN 7" not in drawn


def test_every_packet_that_tshark_finds_is_on_a_rung(tmp_path: Path) -> None:
    frames: list[bytes] = []
    for psn in range(0, 3000, 30):
        frames += [*packets.write(psn, 29), packets.send(psn + 29, path=packets.MARKED), packets.ack(psn + 29)]
        frames += [packets.congestion(), packets.send(psn, qp=0x77)] if psn % 7 == 0 else []
        frames += [packets.ack(psn + 29, RNR), packets.send(psn + 29)] if psn % 11 == 0 else []
    file = tmp_path / "a.pcapng"
    file.write_bytes(pcapng(records(frames)))
    told = rungs(file, "0x22")
    ours = "infiniband.bth.destqp==0x22 or infiniband.bth.destqp==0x11"
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Y", ours, "-Tfields", "-einfiniband.bth.psn"])
    assert sum(rung["packets"] for rung in told) == len(done.stdout.splitlines())
    requests = [rung for rung in told if rung["kind"] == "request"]
    assert sum(rung["bytes"] for rung in requests) == 100 * 29 * 1024 + sum(
        100 for rung in requests for _ in range(rung["packets"]) if rung["what"] == "SEND"
    )
    assert sum(rung["marked"] for rung in told) == 100


def test_a_read_and_its_responses(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    file.write_bytes(pcapng(records([packets.read(5, 3072), *packets.responses(5, 3), packets.send(8)])))
    read, answer, send = rungs(file, "0x22")
    assert (read["what"], read["there"], answer["what"], answer["there"]) == (
        "READ Request",
        True,
        "READ response",
        False,
    )
    assert (answer["psn"], answer["last"], answer["bytes"]) == (5, 7, 3072)
    assert (send["again"], send["missing"]) == (False, 0)


def test_a_filter_chooses_and_times_stay(file: Path) -> None:
    (nak,) = rungs(file, "0x22", "--filter", "nak")
    assert nak["time"] == pytest.approx(41e-6)


@pytest.mark.parametrize("word", ["0x55", "x", "-1", "0x1000000", "0x22@10.9.9.9"])
def test_usage(file: Path, word: str) -> None:
    with pytest.raises(UsageError, match="--qp"):
        analyze(file, "--qp", word)


def test_a_number_that_several_hosts_have_asks_which(tmp_path: Path) -> None:
    other = packets.Path("10.0.0.1", "10.0.0.3")
    file = tmp_path / "a.pcapng"
    file.write_bytes(pcapng(records([packets.send(1), packets.ack(1), packets.send(9, path=other)])))
    with pytest.raises(UsageError, match=r"2 connections.*0x22@10\.0\.0"):
        analyze(file, "--qp", "0x22")
    (only,) = rungs(file, "0x22@10.0.0.3")
    assert only["psn"] == 9


def test_a_link_that_saw_one_direction_in_a_tunnel_is_no_connection_of_its_own(tmp_path: Path) -> None:
    """ECMP: the requests come by in VXLAN, and the answers take another spine."""
    told = Journeys(("h1:eth1",))
    for psn in range(4):
        told.there(psn * 10_000, packets.send(psn))
        told.back(psn * 10_000 + 5000, packets.ack(psn))
    told.links = ("h1:eth1", "spine1:swp1")
    told.taken += [(psn * 10_000 + 1000, 1, 1, packets.vxlan(packets.send(psn))) for psn in range(4)]
    file = tmp_path / "a.pcapng"
    file.write_bytes(told.capture())
    drawn = analyze(file, "--qp", "0x22")
    assert drawn.count("ACK PSN") == 4
    assert "as seen at h1:eth1; pauses at h1:eth1, spine1:swp1" in drawn
