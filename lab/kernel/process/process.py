"""External programs: argument lists only, never a shell, every failure told as one line."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeAlias

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed
from lab.kernel.process import signals

Argv: TypeAlias = Sequence[str | Path]
Completed: TypeAlias = subprocess.CompletedProcess[str]
Process: TypeAlias = "subprocess.Popen[str]"
Place: TypeAlias = Callable[[Callable[[], Process]], Process]
Stream: TypeAlias = int | IO[str] | IO[bytes] | None

PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL
STDOUT = subprocess.STDOUT


@dataclass(frozen=True)
class Surroundings:
    """What a program is given instead of the caller's own, and besides."""

    directory: str | None = None
    environment: Mapping[str, str] | None = None
    new_session: bool = True
    new_group: bool = False
    """A process group of its own, in its session."""
    keep: Sequence[int] = ()
    """Descriptors that it inherits."""


_PASSED_ON: Final = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
"""What the terminal itself sends to every process in its foreground."""


def allow_descriptors(more: int) -> None:
    """Raise our limit of open files, where it is lower, so that ``more`` can be opened; programs inherit it.

    EnvironmentLacks when that is not allowed.
    """
    wanted = len(os.listdir("/proc/self/fd")) + more  # noqa: PTH208 - a Path each would be for nothing
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (OSError, ValueError) as error:
        raise EnvironmentLacks(f"{wanted} open files are needed and {hard} are allowed", "ulimit -Hn") from error


def which(name: str) -> str | None:
    """The path of the program ``name``, also where root's and FRR's are and a user's PATH may not lead."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/lib/frr")


def find_tool(name: str, package: str) -> str:
    """The path of the program ``name``; EnvironmentLacks names the Debian ``package`` that has it."""
    path = which(name)
    if path is None:
        raise EnvironmentLacks(f"program {name} not found", f"apt-get install {package}")
    return path


def here(work: Callable[[], Process]) -> Process:
    """The place where the caller is."""
    return work()


def run(  # noqa: PLR0913 - what subprocess takes too
    argv: Argv,
    *,
    timeout: float | None = 60,
    check: bool = True,
    stdin: str | None = None,
    place: Place = here,
    keep: Sequence[int] = (),
) -> Completed:
    """Run a program to its end and return what it printed. Ctrl-C on the terminal reaches us alone, not the program.

    It is started in ``place`` and waited for by the caller, whom a signal may interrupt; the program, and what it has
    started itself, ends then too. It inherits the descriptors ``keep``.

    Raises CommandFailed when it ends with an error and ``check`` is set, OperationFailed when it takes
    longer than ``timeout`` seconds, EnvironmentLacks when there is no such program.
    """
    words = [str(word) for word in argv]
    source = PIPE if stdin is not None else DEVNULL
    within = Surroundings(keep=keep)
    with ended(lambda: place(lambda: start(words, stdin=source, stdout=PIPE, stderr=PIPE, within=within))) as program:
        try:
            said, complained = program.communicate(stdin, timeout)
        except subprocess.TimeoutExpired as error:
            raise OperationFailed(f"{' '.join(words)} did not end within {timeout:g} s") from error
    if check and program.returncode != 0:
        raise CommandFailed(words, program.returncode, complained or said)
    return subprocess.CompletedProcess(words, program.returncode, said, complained)


@contextlib.contextmanager
def ended(launch: Callable[[], Process]) -> Iterator[Process]:
    """The program that ``launch`` starts; however the block ends, it does not outlive it.

    Nor does what it has started in its session, unless it has ended by itself and left that running: a daemon. A
    signal cannot come between the start and its being known.
    """
    started: list[Process] = []
    try:
        with signals.held():
            started.append(launch())
        yield started[0]
    finally:
        for program in started:
            with signals.held():
                if program.returncode is None:
                    kill_all(program)
                program.wait()
                for stream in (program.stdin, program.stdout, program.stderr):
                    if stream is not None:
                        stream.close()


def kill_all(program: Process) -> None:
    """End a started program that was not waited for, with all that it has started in the session that it has."""
    with contextlib.suppress(ProcessLookupError):  # it is in its caller's session
        os.killpg(program.pid, signal.SIGKILL)
    program.kill()


def start(  # noqa: PLR0913 - what Popen takes too
    argv: Argv,
    *,
    stdin: Stream = DEVNULL,
    stdout: Stream = DEVNULL,
    stderr: Stream = DEVNULL,
    within: Surroundings | None = None,
    group: int | None = None,
) -> Process:
    """Start a program and return at once; the caller ends it. Text streams, a session of its own unless said.

    ``group`` comes from ``lab.kernel.process.cgroup.opened``: the program and all that it starts belong to it.
    """
    words = [str(word) for word in argv]
    given = within or Surroundings()
    try:
        return subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=given.new_session,
            process_group=0 if given.new_group else None,
            cwd=given.directory,
            env=given.environment,
            pass_fds=given.keep,
            preexec_fn=_joining(group),  # noqa: PLW1509 - one system call, which takes no lock of another thread's
        )
    except FileNotFoundError as error:
        if given.directory and not Path(given.directory).is_dir():
            raise OperationFailed(f"no folder {given.directory}") from error
        raise EnvironmentLacks(f"program {words[0]} not found", "install it: rocelab doctor") from error
    except subprocess.SubprocessError as error:
        raise OperationFailed(f"program {words[0]} cannot join its cgroup", "rocelab down, then up") from error


def _joining(group: int | None) -> Callable[[], object] | None:
    """What the child does before it becomes the program: later it might have children of its own."""
    return None if group is None else partial(os.write, group, b"0")


def interact(
    argv: Argv,
    group: int | None = None,
    *,
    is_shell: bool = False,
    place: Place = here,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a program on the caller's own terminal and return its exit code as shells have it, signals included.

    Signals that would end us, and SIGUSR1 and SIGUSR2, are the program's: they reach it once, from a terminal as from
    kill(1). A shell (``is_shell``) gets SIGHUP for SIGTERM, which one that reads from a terminal ignores.
    It is started in ``place`` as in ``run``.
    """
    attached = _in_foreground()
    started: list[Process] = []
    early: list[int] = []

    def pass_on(number: int) -> None:
        if attached and number in _TYPED:
            return
        if not started:
            early.append(number)
        elif started[0].returncode is None:
            asked = signal.SIGHUP if is_shell and number == signal.SIGTERM else signal.Signals(number)
            with contextlib.suppress(ProcessLookupError):
                (os.kill if attached else os.killpg)(started[0].pid, asked)

    within = Surroundings(environment=environment, new_session=False, new_group=not attached)
    ours = signals.handled(pass_on, _PASSED_ON)  # handlers, unlike SIG_IGN, are not inherited
    launch = partial(start, argv, stdin=None, stdout=None, stderr=None, within=within, group=group)
    with ours, place(launch) as program:
        started.append(program)
        for number in early:
            pass_on(number)
        code = program.wait()
    return code if code >= 0 else 128 - code


def _in_foreground() -> bool:
    """Whether a terminal sends us, and what is in our process group, the signals that are typed on it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def wait(process: Process, timeout: float) -> int:
    """The exit code of a started program; OperationFailed, and ``kill_all``, after ``timeout`` seconds."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        kill_all(process)
        process.wait()
        raise OperationFailed(f"{process.args!r} did not end within {timeout:g} s") from error


def stop(process: Process, grace: float = 2.0, ask: signal.Signals = signal.SIGTERM) -> int:
    """Ask a started program to end, insist by ``kill_all`` after ``grace`` seconds, and return its exit code."""
    if process.poll() is None:
        process.send_signal(ask)
        try:
            return process.wait(grace)
        except subprocess.TimeoutExpired:
            kill_all(process)
    return process.wait()


def kill(pids: Iterable[int], *, meant: Callable[[int], bool], timeout: float = 10.0) -> None:
    """End processes that are not our children, at once, and return when all of them are gone.

    ``meant`` says of each pid whether it is still the process that was found: it is asked when that one can no longer
    be taken for another, who might have got its pid meanwhile (pidfd_open(2)).

    Raises OperationFailed naming those that still run after ``timeout`` seconds.
    """
    pids = list(pids)
    allow_descriptors(len(pids) + 1)
    deadline = time.monotonic() + timeout
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as ends:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                opened.callback(os.close, descriptor)
                if meant(pid):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    ends.register(descriptor, selectors.EVENT_READ, pid)
        while ends.get_map():
            for key, _ in ends.select(max(0.0, deadline - time.monotonic())):
                ends.unregister(key.fileobj)
            if ends.get_map() and time.monotonic() > deadline:
                left = ", ".join(str(key.data) for key in ends.get_map().values())
                raise OperationFailed(f"processes {left} cannot be ended", "they hang in the kernel; see dmesg")


def send(pids: Iterable[int], number: signal.Signals, *, meant: Callable[[int], bool]) -> None:
    """Send a signal to processes that are not our children; ``meant`` is asked of each as in ``kill``."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if meant(pid):
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)


def dismiss(
    pid: int, *, meant: Callable[[int], bool], timeout: float = 60.0, number: signal.Signals = signal.SIGTERM
) -> None:
    """Ask a process to end, by the signal that it knows for it, and return when it has.

    ``meant`` is asked as in ``kill``. OperationFailed when it has not within ``timeout`` seconds.
    """
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if meant(pid):
                signal.pidfd_send_signal(descriptor, number)
                if not select.select([descriptor], [], [], timeout)[0]:
                    raise OperationFailed(f"process {pid} does not end", "look what it waits for")
        finally:
            os.close(descriptor)
