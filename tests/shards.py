"""The VM's tests on a VM in virtual time for each core: ``python -m tests.shards [--long] [PYTEST ARGS]``.

They are those without the marker ``long``, or with ``--long`` those that have it. Each VM takes the next session of
pytest, the longest first by ``tests/vm/seconds.json``: a file, or the files of ``SESSIONS`` that share a fabric. In
virtual time they cannot disturb each other: a busy host makes a file take longer, and its tests find the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from lab.vm.host import vm_state
from tests.fabric import memory_checkout
from tests.forks import ENDED

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[1]
VM: Final = ROOT / "tests/vm"
SESSIONS: Final = (
    (
        "incidents/test_probing.py", "incidents/test_diagnose.py", "fabrics/test_top.py", "fabrics/test_tools.py",
        "rdma/test_workload.py", "rdma/test_job_command.py", "rdma/test_job_pods.py",
        "incidents/test_scenarios.py", "incidents/test_challenges.py",
    ),
    ("overlay/test_tenant_challenges.py", "overlay/test_tenant_rdma.py"),
)  # fmt: skip
"""Files in ``tests/vm`` that use one fabric (``tests/vm/shared_fabric.py``), which their common session builds once.
With ``--long`` each file has a session of its own, which takes much longer than the build."""
_UNKNOWN: Final = 60.0
_LONG: Final = "--long"
_MARKED: Final = re.compile(r"\bmark\.long\b")
_ALL_MARKED: Final = re.compile(r"^pytestmark = .*\bmark\.long\b", re.MULTILINE)
_NO_TESTS: Final = 5
"""pytest's exit code when its arguments deselect all tests."""
_INTERRUPTED: Final = 130
_UTIME: Final = 11
"""Index of utime among the fields of /proc/PID/stat after the command's name; stime follows (proc(5), 14 and 15)."""
_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)")
_COUNTED: Final = ("passed", "failed", "error", "skipped")
_SLOWEST: Final = ("--durations=4", "--durations-min=5")
_DURATION: Final = re.compile(r"^[\d.]+s (setup|call|teardown) ")


@dataclass(frozen=True)
class Outcome:
    """The results of a session's tests; ``file`` names its files, separated by blanks."""

    file: str
    seconds: float
    code: int
    output: str
    cpu: float | None = None
    """Seconds of a core that its place used: a VM with its idle loop, or a private machine; None if not known."""

    @property
    def counts(self) -> dict[str, int]:
        """Tests by result, of pytest's last line."""
        lines = [line for line in self.output.splitlines() if _COUNT.search(line)] or [""]
        found = {word.removesuffix("s"): int(number) for number, word in _COUNT.findall(lines[-1])}
        return {word: found.get(word, 0) for word in _COUNTED}

    @property
    def good(self) -> bool:
        """Whether nothing failed, or no test was selected."""
        return self.code in {0, _NO_TESTS}


class Shard(threading.Thread):
    """One place for tests, and the files that it takes."""

    def __init__(self, forks: Forks, files: queue.SimpleQueue[str], outcomes: queue.SimpleQueue[Outcome]) -> None:
        super().__init__()
        self._forks, self._files, self._outcomes = forks, files, outcomes

    def run(self) -> None:
        """Take files until there are none."""
        with contextlib.suppress(queue.Empty):
            while True:
                file, began, used = self._files.get_nowait(), time.monotonic(), self._forks.cpu_seconds()
                try:
                    code, output = self._forks.tested(file)
                except Exception:  # noqa: BLE001 - whoever waits for the file's outcome would wait for ever
                    code, output = 1, traceback.format_exc()
                    self._forks.end()
                cpu = None if (now := self._forks.cpu_seconds()) is None or used is None else now - used
                self._outcomes.put(Outcome(file, time.monotonic() - began, code, output, cpu))
        self._forks.close()


class Forks:
    """``tests.forks``, by the command that starts it; started for the first file, and again where it was lost."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._running: subprocess.Popen[str] | None = None

    def prepare(self) -> tuple[int, str]:
        """Prepare for their start: an exit code, and the output where it is not 0."""
        return 0, ""

    def cpu_seconds(self) -> float | None:
        """Seconds of a core that they have used so far; None if that is not known."""
        return None

    def dispose(self) -> None:
        """End them, and what was prepared, whatever runs."""
        if self._running:
            self._running.terminate()
            self._running.wait()

    def tested(self, file: str) -> tuple[int, str]:
        """The exit code and output of a session; where there is no VM (any more), what that gave."""
        if self._running is None or self._running.poll() is not None:
            code, output = self.prepare()
            if code:
                return code, output
            self._running = started(*self._command)
        assert self._running.stdin
        assert self._running.stdout
        with contextlib.suppress(BrokenPipeError):
            print(file, file=self._running.stdin, flush=True)
        said: list[str] = []
        for line in self._running.stdout:
            if line.startswith(ENDED):
                return int(line.removeprefix(ENDED)), "".join(said)
            said.append(line)
        return self._running.wait() or 1, "".join(said)

    def end(self) -> None:
        """End them at once; the next file has them started again."""
        if self._running:
            self._running.kill()
            self._running.communicate()
            self._running = None

    def close(self) -> None:
        """Let them end."""
        if self._running:
            self._running.communicate()


class VmForks(Forks):
    """They run in a VM in virtual time, which is started where there is none."""

    _starting: ClassVar = threading.Lock()

    def __init__(self, vm: str, arguments: list[str]) -> None:
        super().__init__([])
        self._vm = vm
        self._arguments = arguments

    def prepare(self) -> tuple[int, str]:
        """The VM is up. One after the other: the first boots, and the others continue from what it has saved."""
        with self._starting:
            code, output = ended(*rocelab("vm", "up", "--name", self._vm, "--time", "virtual"))
        running = vm_state.state_folder(self._vm).running()
        if code or running is None:
            return code or 1, output
        memory_checkout.pack(running, self._vm, ROOT)
        command = memory_checkout.within_copy(running, self._vm, "python3", "-m", "tests.forks", *self._arguments)
        self._command = rocelab("vm", "run", "--name", self._vm, "--", *command)
        return 0, ""

    def cpu_seconds(self) -> float | None:
        """Those of the VM's process (proc(5): utime and stime); 0 before it is started."""
        running = vm_state.state_folder(self._vm).running()
        if running is None:
            return 0.0
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = Path(f"/proc/{running.pid}/stat").read_text(encoding="utf-8", errors="replace")
            used = stat.rpartition(")")[2].split()[_UTIME : _UTIME + 2]
            return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
        return None

    def dispose(self) -> None:
        """Its VM is down, and so are they."""
        if running := vm_state.state_folder(self._vm).running():
            memory_checkout.archive_path(running, self._vm).unlink(missing_ok=True)
        ended(*rocelab("vm", "down", "--name", self._vm))


def rocelab(*words: str) -> list[str]:
    """The command line of ``rocelab words...``."""
    return [sys.executable, "-m", "lab", *words]


def ended(*command: str) -> tuple[int, str]:
    """Run a program; its exit code and what it printed."""
    with started(*command) as process:
        said = process.communicate()[0]
    return process.returncode, said


def started(*command: str) -> subprocess.Popen[str]:
    """A program on its way, with pipes to it and from it. Ctrl-C reaches it as it reaches us."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=ROOT,
    )


def test_files(folder: Path, *, long: bool) -> list[str]:
    """The test files below a folder that have tests to run: any that is ``long``, or any that is not."""
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("test_*.py"))
    }
    return [name for name, text in texts.items() if (_MARKED.search(text) if long else not _ALL_MARKED.search(text))]


def sessions(folder: Path, *, long: bool) -> list[str]:
    """The sessions of pytest, each as the names of its files, the longest first by the folder's ``seconds.json``."""
    known: dict[str, float] = json.loads((folder / "seconds.json").read_text(encoding="ascii"))
    files = test_files(folder, long=long)
    shared = [" ".join(f"tests/vm/{name}" for name in session) for session in SESSIONS if folder == VM and not long]
    alone = [name for name in files if not any(name in session.split() for session in shared)]
    return sorted(
        [*shared, *alone], key=lambda session: -sum(known.get(name, _UNKNOWN) for name in short(session).split())
    )


def short(session: str) -> str:
    """The files of a session without their folders."""
    return " ".join(Path(file).name for file in session.split())


def pytest_arguments(*given: str, long: bool) -> list[str]:
    """pytest's arguments for one session after another."""
    return [*_SLOWEST, "-m", "long" if long else "not long", *given]


def main() -> int:
    """Run the VM's files, or with ``--long`` the ``long`` tests in them."""
    long = sys.argv[1:2] == [_LONG]
    arguments = pytest_arguments(*sys.argv[2 if long else 1 :], long=long)
    vms = [VmForks(f"test{number}", arguments) for number in range(os.cpu_count() or 1)]
    return run_all(sessions(VM, long=long), vms)


def run_all(names: list[str], places: Sequence[Forks]) -> int:
    """Run all files, show each one's output as it ends, and the sums; 1 when a test failed, 130 when interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    files: queue.SimpleQueue[str] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for name in names:
        files.put(name)
    shards = [Shard(forks, files, outcomes) for forks in places]
    try:
        for shard in shards:
            shard.start()
        outcome = [shown(outcomes.get()) for _ in names]
        for shard in shards:
            shard.join()
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who ends a whole process group is heard twice
        while not files.empty():  # interrupted: nobody takes another one
            files.get()
        for forks in places:
            forks.dispose()
    return summarised(outcome, time.monotonic() - began)


def shown(outcome: Outcome) -> Outcome:
    """Print what a file's tests said: all of it when one failed, else the last line, and what took long in it."""
    lines = outcome.output.rstrip().splitlines() or ["it printed nothing"]
    if outcome.good:
        lines = [line for line in lines[:-1] if _DURATION.match(line)] + lines[-1:]
    print("\n".join(lines), flush=True)
    cpu = "" if outcome.cpu is None else f", {outcome.cpu:.0f} s of a core"
    print(f"--- {outcome.file}: {outcome.seconds:.0f} s{cpu}, exit code {outcome.code}", flush=True)
    return outcome


def summarised(ended: list[Outcome], seconds: float) -> int:
    """Print the sums over all files and what they took side by side, and return the exit code."""
    sums = {word: sum(outcome.counts[word] for outcome in ended) for word in _COUNTED}
    bad = [outcome.file for outcome in ended if not outcome.good]
    for file in bad:
        print(f"FAILED {file}")
    print(json.dumps({short(outcome.file): round(outcome.seconds) for outcome in ended}))
    failed = sums["failed"] + sums["error"]
    print(f"{sums['passed']} passed, {failed} failed, {sums['skipped']} skipped in {seconds:.0f} s")
    return 1 if bad or not sums["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
