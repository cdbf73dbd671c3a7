"""``rocelab replay`` and ``top`` from outside: what they print, on a real terminal, what they refuse and cost."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import pexpect
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli import vm_routing
from lab.cli.app import app
from lab.cli.command_registry import all_functions
from lab.cli.kit import output
from lab.cli.schemas import adapter
from lab.cli.tables import dashboard_tables
from lab.errors import ExitCode, UsageError
from lab.telemetry.read.dashboard import DEVICES, PORTS
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import RecordedFilm
from lab.tui.replay_app import Replay
from tests.command_line import every_command, parsed
from tests.fabric import resident
from tests.unit.telemetry.played import PORT, played

if TYPE_CHECKING:
    from pathlib import Path

    from lab.telemetry.read.window_measure import Measure


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("played") / "run").finished()


def rocelab(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return resident.ended(*map(str, words), timeout=120)


def test_a_moment_is_answered_as_its_schema_has_it(path: Path) -> None:
    said = CliRunner().invoke(app, ["replay", str(path), "--at", "3.5", "--json"])
    assert said.exit_code == 0, said.exception
    adapter("replay").validate_json(said.stdout)
    told = json.loads(said.stdout)
    assert told["ports"][PORT]["rx_pauses"] == pytest.approx(40, rel=0.01)  # 2 in each of 20 samples a second
    assert told["devices"]["h1:eth1"]["tx_bps"] is None
    assert told["sessions"][0]["state"] == "Idle"
    shown = CliRunner().invoke(app, ["replay", str(path), "--at", "3.5", "--once"])
    assert shown.exit_code == 0
    (line,) = [line for line in shown.stdout.splitlines() if PORT in line]
    assert "40" in line
    assert "h1:eth1" in shown.stdout


@pytest.mark.parametrize(("time", "shown"), [("virtual", True), ("host", False), ("", False)])
def test_seconds_of_virtual_time_are_called_so(path: Path, tmp_path: Path, time: str, shown: bool) -> None:
    run = tmp_path / "run"
    subprocess.run(["cp", "-r", path, run], check=True)
    if time:
        (run / "host.json").write_text(json.dumps({"time": time}))
    said = CliRunner().invoke(app, ["replay", str(run), "--at", "3.5", "--json"])
    assert json.loads(said.stdout)["time"] == time
    once = CliRunner().invoke(app, ["replay", str(run), "--at", "3.5", "--once"])
    assert ("in seconds of virtual time" in " ".join(once.stdout.split())) is shown
    headline = Replay(RecordedFilm(Recording.open(run))).headline()
    assert (" s of virtual time " in headline) is shown


@pytest.mark.parametrize("at", ["3500ms", "3.5s", "3.5 s"])
def test_the_moment_is_written_with_any_unit_or_none(path: Path, at: str) -> None:
    said, plain = (CliRunner().invoke(app, ["replay", str(path), "--json", "--at", text]) for text in (at, "3.5"))
    assert said.exit_code == 0, said.exception
    assert said.stdout == plain.stdout


@pytest.mark.parametrize(("at", "why"), [("1h", "is after the end of run: choose 0 to "), ("soon", "is not a time")])
def test_a_moment_that_is_not_in_the_recording_is_refused(path: Path, at: str, why: str) -> None:
    done = rocelab("replay", path, "--once", "--at", at)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_the_end_may_be_rounded_as_the_message_rounds_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "seconds", 2.21379)
    said = {at: CliRunner().invoke(app, ["replay", str(path), "--once", "--at", at]) for at in ("2.214s", "2.215s")}
    assert said["2.214s"].exit_code == 0, said["2.214s"].exception
    assert isinstance(said["2.215s"].exception, UsageError)


def test_no_time_is_a_bare_number() -> None:
    """Options are fractions only if they are no times: times have units."""
    fractions = {
        name
        for _, command in every_command()
        for parameter in command.params
        if getattr(parameter, "type_descriptor").annotation is float  # noqa: B009 - Typer does not declare it
        for name in parameter.opts
    }
    assert fractions == {"--hz", "--speed", "--threshold", "--limit"}


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_head_of_a_column_is_split_on_a_narrow_terminal(
    path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.StringIO()
    narrow = Console(width=width, file=printed)
    monkeypatch.setattr(dashboard_tables, "stdout", narrow)
    monkeypatch.setattr(output, "stdout", narrow)
    said = CliRunner().invoke(app, ["replay", str(path), "--once", "--at", "3.5"])
    assert said.exit_code == 0, said.exception
    lines = printed.getvalue().splitlines()
    titles = [place for place, line in enumerate(lines) if line.startswith(("ports of", "devices of"))]
    heads = [lines[place + 2] for place in titles]
    known = {measure.title for sheet in (PORTS, DEVICES) for measure in sheet.measures} | {"port", "device"}
    assert [lines[place + 3][0] for place in titles] == ["┡", "┡"]  # one line for each table
    assert {cell.strip() for line in heads for cell in line.strip("┃").split("┃")} <= known
    if width == 40:
        assert any(line.startswith("Columns left out on this narrow terminal: ") for line in lines)


@pytest.mark.parametrize("measure", PORTS.measures, ids=lambda measure: measure.name)
def test_the_column_of_the_order_stays_on_a_narrow_terminal(
    path: Path, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``top --sort``: also a column without a value, and one that would be left out first."""
    printed = io.StringIO()
    monkeypatch.setattr(dashboard_tables, "stdout", Console(width=40, file=printed))
    film = RecordedFilm(Recording.open(path))
    dashboard_tables.show(film, film.end, measure.name)
    head = printed.getvalue().splitlines()[2]
    assert measure.title in [cell.strip() for cell in head.strip("┃").split("┃")]


def test_what_it_cannot_play_is_a_line(path: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "recording.json").write_text('{"format": "other"}')
    damaged = tmp_path / "damaged"
    subprocess.run(["cp", "-r", path, damaged], check=True)
    (damaged / "counters" / "priorities.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    torn = tmp_path / "torn"
    subprocess.run(["cp", "-r", path, torn], check=True)
    (torn / "events.jsonl").write_text('{"ns": 1}\nnonsense\n{"ns": 2}\n')
    for folder, why in (
        (tmp_path / "none", "no recording"), (foreign, "is not rocelab's"), (damaged, "is damaged"),
        (torn, "line 2 is damaged"), (tmp_path, "is not a recording"),
    ):  # fmt: skip
        said = rocelab("replay", folder, "--once")
        assert said.returncode == ExitCode.USAGE, (folder, said)
        assert said.stdout == ""
        assert why in said.stderr
        assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [["replay", "RUN"], ["top"]])
def test_without_a_terminal_it_says_how_to_look(path: Path, command: list[str]) -> None:
    said = rocelab(*(str(path) if word == "RUN" else word for word in command))
    assert said.returncode == ExitCode.USAGE
    assert "needs a terminal, and standard output is not one: " in said.stderr
    assert "--once" in said.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [(["--sort", "rate"], "there is no column rate"), (["--hz", "0"], "--hz 0 is out of range"),
     (["a", "--fabric", "b"], "a and b are different fabrics")],
)  # fmt: skip
def test_top_refuses_what_it_cannot_do(words: list[str], why: str) -> None:
    refused = CliRunner().invoke(app, ["top", *words]).exception
    assert isinstance(refused, UsageError)
    assert refused.message == why


def test_a_sampler_that_has_nothing_to_sample_ends_the_command_as_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCELAB_VM", "0")
    said = rocelab("top", "--once", "--fabric", "no-such-fabric")
    assert said.returncode == ExitCode.USAGE, said
    assert "no-such-fabric" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_on_a_terminal_it_leaves_by_a_key_and_leaves_that_as_it_was(path: Path, key: str) -> None:
    child: Any = pexpect.spawn(
        sys.executable, ["-m", "lab", "replay", str(path), "--at", "3.5"], timeout=60, dimensions=(30, 120)
    )
    before = termios.tcgetattr(child.child_fd)
    child.expect_exact("\x1b[?1049h")  # the other screen, as DEC and xterm have it
    child.expect_exact("leaf1:swp3")
    child.send(key)
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    child.wait()
    assert (child.exitstatus, child.signalstatus) == (0, None)
    after = termios.tcgetattr(child.child_fd) if not child.closed else before
    assert after[:4] == before[:4]


def test_a_signal_leaves_the_terminal_as_a_key_does(path: Path) -> None:
    child: Any = pexpect.spawn(sys.executable, ["-m", "lab", "replay", str(path)], timeout=60, dimensions=(30, 120))
    child.expect_exact("leaf1:swp3")
    child.kill(15)
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    child.wait()
    assert (child.exitstatus, child.signalstatus) == (0, None)


def test_only_who_looks_waits_for_textual(path: Path) -> None:
    everything = ", ".join(sorted({f"lab.cli.{function.partition(':')[0]}" for _, function in all_functions()}))
    code = f"import sys, {everything}; sys.exit('textual' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    once = f"""
import sys
sys.argv = ["rocelab", "replay", {str(path)!r}, "--once"]
from lab.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.exit("textual" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", once], check=True, timeout=120, capture_output=True)


def test_only_its_samples_come_from_the_vm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROCELAB_VM")
    monkeypatch.setattr(vm_routing, "_shared_vm", lambda: (None, None))
    monkeypatch.setattr("lab.backends.fabric_state.FABRICS", tmp_path)
    assert vm_routing.runs_in_vm(parsed("top --stream"))
    for words in (["top"], ["top", "--once"], ["top", "--json"], ["replay", "run"]):
        assert not vm_routing.runs_in_vm(parsed(words))
