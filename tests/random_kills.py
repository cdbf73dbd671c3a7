"""Runs of scenarios in which any process is killed at any point: their messages, and their leftovers.

A kill is drawn by a seed: a scenario, a victim, and a moment. The recording gives the moment: so many lines of notes,
commands and truth, and then so many growths of its log.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.backends.fabric_state import FabricState
from lab.dataplane import port_maps
from lab.errors import LabError
from lab.kernel.process import process
from lab.model.load import read_topology
from lab.scenario.judge import judge
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.recording_summary import summarise
from lab.telemetry.store.recording_folder import Folder
from tests.fabric import snapshot
from tests.fabric.command import ROOT, rocelab, rocelab_json
from tests.fabric.resident import Begun

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS: Final = ("incast", "slow-receiver", "pfc-one-sided", "headroom-too-small", "gray-loss")
"""All of incast.yaml: ports that are set, faults that are injected, and both."""
TOPOLOGY: Final = ROOT / "topologies/incast.yaml"
KINDS: Final = ("command", "offspring", "perftest", "daemon")
DAEMONS: Final = {"zebra", "bgpd", "bfdd", "staticd", "mgmtd"}
LATER: Final = 3
"""The most growths of the log, two a second, after the line that was drawn."""
HOLD: Final = "1s"
"""How long phases are: too short for some checks, and as good as any for what is killed in them."""
PATIENCE: Final = 300.0
JUDGED: Final = {0, 1, 3}
ERRORS: Final = {1, 2, 4}
_POLL: Final = 0.02


@dataclass(frozen=True)
class Kill:
    """One that was drawn: what is killed is the first of ``wanted`` that there is."""

    number: int
    scenario: str
    wanted: tuple[str, ...]
    line: int
    later: int
    choice: float

    def __str__(self) -> str:
        return f"kill {self.number}: {self.scenario} at line {self.line}+{self.later}"


@dataclass
class Outcome:
    """The outcome of a kill."""

    kill: Kill
    killed: str = ""
    """The killed process and its name; empty for a run that had ended before."""
    code: int = 0
    said: str = ""
    verdict: str = ""
    """On the recording: pass, fail, unknown, or "none" where there was none yet."""
    wrong: list[str] = field(default_factory=list)
    """Everything that is wrong, in lines."""


def drawn(seed: int, count: int, lines: dict[str, int]) -> Iterator[Kill]:
    """So many kills; ``lines`` are how many each scenario's recording comes to have."""
    chance = random.Random(seed)
    for number in range(count):
        scenario = chance.choice(sorted(lines))
        wanted = tuple(chance.sample(KINDS, len(KINDS)))
        line, later = chance.randrange(lines[scenario] + 1), chance.randrange(LATER + 1)
        yield Kill(number, scenario, wanted, line, later, chance.random())


class Killer:
    """A warm fabric, on which runs are killed, and which must be as it was after each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = read_topology(TOPOLOGY).name
        self._octets = b""
        self._lines: dict[str, int] = {}
        self._before = snapshot.take()

    def warm(self) -> None:
        """Have the fabric up as it is built."""
        if not (self._octets and FabricState(self.name).ready):
            rocelab("up", TOPOLOGY)
            self._octets = port_maps.open_maps(self.name).config.tobytes()

    def lines_of(self, scenario: str) -> int:
        """The number of lines of an undisturbed run."""
        self.warm()
        output = Path(tempfile.mkdtemp(dir=self._folder))
        with _begun(scenario, output) as command:
            done = command.end(PATIENCE)
        assert done.returncode in JUDGED, done.stderr
        self._lines[scenario], _ = told(_recording(output))
        return self._lines[scenario]

    def run(self, kill: Kill) -> Outcome:
        """Play, kill, and look."""
        self.warm()
        outcome, output = Outcome(kill), Path(tempfile.mkdtemp(dir=self._folder))
        with _begun(kill.scenario, output) as command:
            if _comes(kill, command, output):
                outcome.killed = self._kill(kill, command)
            try:
                done = command.end(PATIENCE)
            except subprocess.TimeoutExpired:
                outcome.wrong.append("the command does not end")
                command.kill()
                done = command.end(PATIENCE)
        outcome.code, outcome.said = done.returncode, done.stderr.strip().rpartition("\n")[2]
        outcome.wrong += _spoken(done.returncode, done.stderr, outcome.killed)
        look_at_the_recording(outcome, output, self._lines[kill.scenario])
        self._look_at_the_fabric(outcome)
        return outcome

    def _kill(self, kill: Kill, command: Begun) -> str:
        """Kill the first of what is wanted that there is, and say what it was."""
        found = self._processes()
        for kind in kill.wanted:
            if kind == "command":
                command.kill()
                return kind
            if pids := found[kind]:
                pid = pids[int(kill.choice * len(pids))]
                what = f"{kind} {_name(pid)}"
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(pid, signal.SIGKILL)
                    return what
        return ""

    def _processes(self) -> dict[str, list[int]]:
        """The processes of each kind, by pid."""
        inside = self._inside()
        players = [int(entry.name.partition("-")[0]) for entry in FabricState(self.name).players.glob("*")]
        return {
            "offspring": sorted({pid for player in players for pid in _descendants(player)} - set(inside)),
            "perftest": [pid for pid in inside if _name(pid).startswith("ib_")],
            "daemon": [pid for pid in inside if _name(pid) in DAEMONS],
        }

    def _inside(self) -> list[int]:
        """The pids of all that runs in the nodes."""
        found = set[int]()
        for node in read_topology(TOPOLOGY).nodes:
            said = process.run(["ip", "netns", "pids", f"rl-{self.name}.{node.name}"], check=False)
            found |= set(map(int, said.stdout.split()))
        return sorted(found)

    def _look_at_the_fabric(self, outcome: Outcome) -> None:
        """The next command heals it; or, of one that has lost a daemon, ``down`` leaves nothing."""
        if faults := rocelab_json("fault", "ls"):
            outcome.wrong.append(f"faults are left: {faults}")
        if left := [_name(pid) for pid in self._inside() if _name(pid).startswith("ib_")]:
            outcome.wrong.append(f"programs are left: {', '.join(left)}")
        if port_maps.open_maps(self.name).config.tobytes() != self._octets:
            outcome.wrong.append("ports are not as they were")
        if outcome.wrong or outcome.killed.startswith("daemon"):
            outcome.wrong += self.down()

    def down(self) -> list[str]:
        """Take it down, and return its leftovers, in lines."""
        rocelab("down", "--fabric", self.name)
        return self._before.differences(snapshot.take())


def _begun(scenario: str, output: Path) -> Begun:
    return Begun("scenario", "run", scenario, "--keep", "--output", str(output), "--set", f"hold={HOLD}")


def look_at_the_recording(outcome: Outcome, output: Path, whole: int) -> None:
    """It can be read, and where the run was cut short, of ``whole`` lines, no check says anything."""
    folder = _recording(output)
    if folder is None or not Folder(folder).about.exists():
        outcome.verdict = "none"
        return
    try:
        recording = Recording.open(folder)
        if recording.seconds:
            summarise(recording)
        outcome.verdict = judge(folder).outcome.value
    except LabError as error:
        outcome.wrong.append(f"the recording cannot be read: {error}")
        return
    if recording.incomplete and outcome.verdict != "unknown":
        outcome.wrong.append(f"a recording that is incomplete is judged {outcome.verdict}")
    lines, _ = told(folder)
    if outcome.killed.startswith("command") and not recording.incomplete and lines < whole:
        # With all of its lines it may be: the command was killed when it had ended its recording.
        outcome.wrong.append(
            f"its command was killed, and the recording is called complete with {lines} of {whole} lines"
        )


def _spoken(code: int, said: str, killed: str) -> list[str]:
    """Errors in the end of a command, which must be killed, have a verdict, or report its problem in one line."""
    if "Traceback" in said:
        return [f"a traceback: {said}"]
    if killed.startswith("command"):
        return [] if code == -signal.SIGKILL else [f"the command was killed and ended with {code}"]
    if code in JUDGED:
        return []
    return [] if code in ERRORS and said.strip() else [f"it ended with {code}: {said}"]


def _comes(kill: Kill, command: Begun, output: Path) -> bool:
    """Wait for the moment of a kill; False when the command has ended before."""
    growths, size = 0, -1
    while not command.is_over(_POLL):
        lines, now = told(_recording(output))
        if lines > kill.line or (lines == kill.line and growths >= kill.later):
            return True
        if lines == kill.line and now != size:
            growths, size = growths + (size >= 0), now
    return False


def _recording(output: Path) -> Path | None:
    return next(iter(output.iterdir()), None)


def told(folder: Path | None) -> tuple[int, int]:
    """How many lines a recording has come to, and how long its log is."""
    if folder is None:
        return 0, 0
    found = Folder(folder)
    lines = sum(_read(path).count(b"\n") for path in (found.notes, found.commands, found.truth))
    return lines, found.log.stat().st_size if found.log.exists() else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _name(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _descendants(pid: int) -> Iterator[int]:
    for children in Path("/proc", str(pid), "task").glob("*/children"):
        for child in map(int, _read(children).split()):
            yield child
            yield from _descendants(child)
