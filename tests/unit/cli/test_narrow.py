"""The tables of captures on a terminal of 80 columns: none is wider, names are whole, what has no room is named."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from lab.cli.kit import output
from lab.wire.pcapng import Direction
from tests.patience import PATIENCE
from tests.unit.analysis import packets
from tests.unit.analysis.journeys import LINKS, Journeys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = ("host-gpu-17:eth1", "leaf17-a:swp12", "spine2:swp17", "leaf18-b:swp13")
FIRST, SECOND = "2001:db8:1234:5678:9abc:def0:1234:5678", "2001:db8:1234:5678:9abc:def0:1234:5679"
WAYS = [
    (packets.THERE, packets.BACK, LINKS),
    (packets.Path("10.123.200.101", "10.123.200.102"), packets.Path("10.123.200.102", "10.123.200.101"), LINKS),
    (packets.Path(FIRST, SECOND), packets.Path(SECOND, FIRST), LONG),
]
TABLES = (
    "Queue pairs", "PSNs and answers", "Go-back-N episodes", "Goodput over ", "Pauses", "Parallel links",
    "Marked CE along the path", "Inside VXLAN and GENEVE", "Not decoded",
)  # fmt: skip
ARP = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)


def story(there: packets.Path, back: packets.Path, links: tuple[str, ...]) -> Journeys:
    """Everything that has a table."""
    told = Journeys(links)
    for psn in (*range(1, 40), 41, 42):
        told.there(psn * 10_000, packets.send(psn, 900, path=replace(there, ecn=3 if psn % 3 else 2)))
    told.back(25_000, packets.ack(1, path=back))
    told.back(500_000, packets.ack(40, 0x60, path=back))
    for psn in (40, 41, 42):
        told.there(600_000 + psn * 10_000, packets.vxlan(packets.send(psn, 900, path=there)))
        told.there(700_000 + psn * 10_000, packets.send(psn, 900, path=there))
    for time, psn in ((770_000, 44), (780_000, 43)):
        told.there(time, packets.send(psn, 900, path=there))
    told.taken += [(800_000, 1, 1, packets.pause({3: 0xFFFF})), (990_000, 1, 1, packets.pause({3: 0}))]
    for qp in range(100, 109):
        spread = packets.send(1, path=replace(there, hops=60), qp=qp)
        told.taken.append((995_000 + qp, 1 + qp % 2, Direction.OUTBOUND, spread))
    told.taken.append((999_000, 1, Direction.INBOUND, ARP))
    return told


def at_80(file: Path, *words: str, expect: int) -> list[str]:
    """What a command says of a file."""
    argv = [sys.executable, "-m", "lab", words[0], str(file), *words[1:]]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=PATIENCE, env={"COLUMNS": "80", "PYTHONUTF8": "1"}
    )
    assert done.returncode == expect, done.stderr
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines if line[:1] in set("┏┃┡│└ ")) <= 80
    return lines


@pytest.fixture(params=WAYS, ids=["short", "long", "IPv6"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "a.pcapng"
    made.write_bytes(story(*request.param).capture())
    return made


def whole_names(lines: list[str]) -> set[str]:
    """Names of links that a line of a table has in one piece."""
    drawn = " ".join(line for line in lines if line.startswith("│"))
    return {name for name in (*LINKS, *LONG) if f" {name} " in drawn}


def test_every_table_of_analyze_fits(file: Path) -> None:
    lines = at_80(file, "analyze", expect=1)
    for title in TABLES:
        assert any(line.startswith(title) for line in lines), title
    assert whole_names(lines) in (set(LINKS), set(LONG))
    told = "\n".join(lines)
    for head in ("out-of-order", "retransmitted", "priority", "because of", "goodput"):
        assert head in told
    assert "Columns left out on this narrow terminal: " in told


def test_what_happened_is_told_before_who_asked(file: Path) -> None:
    """However long addresses are: what a table is about stays."""
    lines = at_80(file, "analyze", expect=1)
    begin = lines.index("PSNs and answers")
    heads = [word.strip() for word in lines[begin + 2].strip("┃").split("┃")]
    assert {"link", "to", "QP", "missing", "answers"} <= set(heads)


def test_the_table_of_follow_fits(file: Path) -> None:
    lines = at_80(file, "follow", "0x22:41", expect=0)
    assert whole_names(lines) in (set(LINKS), set(LONG))
    assert "QP 0x22  PSN 41: sent again" in lines[0]
    assert any("delay ns" in line for line in lines)


def test_a_ladder_fits(file: Path) -> None:
    lines = at_80(file, "analyze", "--qp", "0x22", expect=1)
    assert any("NAK PSN 40 PSN Sequence Error" in line for line in lines)


@pytest.fixture
def drawn_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], list[str]]:
    """The lines of a table with nine columns in a width, whose rows have this name."""

    def draw(width: int, first: str) -> list[str]:
        file = io.StringIO()
        monkeypatch.setattr(output, "stdout", Console(width=width, file=file))
        rows = [(first, *("3.58 kb/s" for _ in range(8)))]
        output.stdout.print(output.table("ports", ("port", *("tx rate" for _ in range(8))), rows))
        return file.getvalue().splitlines()

    return draw


def test_the_names_of_rows_are_whole_while_other_cells_wrap(drawn_at: Callable[[int, str], list[str]]) -> None:
    assert any("│ leaf17-a:swp12 │" in line for line in drawn_at(60, "leaf17-a:swp12"))


@pytest.mark.parametrize("width", [44, 48, 49, 50, 60])
@pytest.mark.parametrize("first", ["swp1", "leaf17-a:swp12", "leaf17-a:Ethernet112", "端口" * 7])
def test_no_cell_is_cut_off(width: int, first: str, drawn_at: Callable[[int, str], list[str]]) -> None:
    """Whatever is wrapped: each cell has all of its letters."""
    rows = [line.strip("│").split("│") for line in drawn_at(width, first) if line.startswith("│")]
    cells = ["".join("".join(column).split()) for column in zip(*rows, strict=True)]
    assert cells == [first, *["3.58kb/s"] * 8]


def test_long_text_in_the_first_column_wraps(drawn_at: Callable[[int, str], list[str]]) -> None:
    lines = drawn_at(60, "a sentence about a port that is longer than the name of one")
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("│") for line in lines) > 3


@pytest.mark.parametrize("columns", ["0", "1", "20", "-5", "x", ""])
def test_no_column_is_without_room_whatever_the_environment_says(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    output.look_again()
    try:
        output.stdout.print(output.table("ports", "abcdefghi", [[f"{letter}1" for letter in "ABCDEFGHI"]]))
    finally:
        monkeypatch.undo()
        output.look_again()
    shown = capsys.readouterr().out
    assert set("ABCDEFGHI") <= set(shown)
    assert max(map(len, shown.splitlines())) <= 132
