"""External programs: argument lists only, never a shell; each failure is reported in one line."""

from __future__ import annotations

import contextlib
import math
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
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed
from lab.kernel.process import signals

if TYPE_CHECKING:
    from _typeshed import HasFileno

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
    """How a program's environment differs from the caller's: folder, variables, session, descriptors."""

    directory: str | None = None
    environment: Mapping[str, str] | None = None
    new_session: bool = True
    new_group: bool = False
    """Whether it gets a process group of its own, within its session."""
    keep: Sequence[int] = ()
    """Descriptors that the program inherits."""


_PASSED_ON: Final = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
"""Signals that the terminal itself sends to every process in its foreground."""


def allow_descriptors(more: int) -> None:
    """Raise the limit of open files, if needed, so that ``more`` can be opened. Programs inherit it.

    Raises EnvironmentLacks if that is not allowed.
    """
    wanted = len(os.listdir("/proc/self/fd")) + more  # noqa: PTH208 - needs no Path objects
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (OSError, ValueError) as error:
        raise EnvironmentLacks(f"{wanted} open files are needed and {hard} are allowed", "ulimit -Hn") from error


def which(name: str) -> str | None:
    """Return the path of a program, also from the folders of root and FRR that a user's PATH may lack."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/lib/frr")


def find_tool(name: str, package: str) -> str:
    """Return the path of a program. Raises EnvironmentLacks, which names the Debian ``package`` that contains it."""
    path = which(name)
    if path is None:
        raise EnvironmentLacks(f"program {name} not found", f"apt-get install {package}")
    return path


def here(work: Callable[[], Process]) -> Process:
    """Run ``work`` where the caller is: the default place."""
    return work()


def run(  # noqa: PLR0913 - the parameters of subprocess.run
    argv: Argv,
    *,
    timeout: float | None = 60,
    check: bool = True,
    stdin: str | None = None,
    place: Place = here,
    keep: Sequence[int] = (),
    directory: str | None = None,
) -> Completed:
    """Run a program to its end and return its output. Ctrl-C on the terminal reaches only the caller.

    The program starts in ``place`` and ``directory``, and inherits the descriptors ``keep``. The caller waits for it.
    If a signal interrupts the caller, the program is ended with all that it started.

    Raises CommandFailed if it fails and ``check`` is set, OperationFailed if it runs longer than ``timeout`` seconds,
    EnvironmentLacks if there is no such program.
    """
    words = [str(word) for word in argv]
    source = PIPE if stdin is not None else DEVNULL
    within = Surroundings(directory, keep=keep)
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
    """Yield the program that ``launch`` starts. It does not outlive the block, however the block ends.

    The same holds for all that it started in its session. The exception is a program that has ended by itself and
    left a daemon. Signals are held during the start, so that a started program is always registered.
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
    """Kill a started program that was not waited for, with everything in its session."""
    with contextlib.suppress(ProcessLookupError):  # it shares its caller's session
        os.killpg(program.pid, signal.SIGKILL)
    program.kill()


def start(  # noqa: PLR0913 - the parameters of Popen
    argv: Argv,
    *,
    stdin: Stream = DEVNULL,
    stdout: Stream = DEVNULL,
    stderr: Stream = DEVNULL,
    within: Surroundings | None = None,
    group: int | None = None,
) -> Process:
    """Start a program and return at once; the caller ends it. Streams are text; by default it gets its own session.

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
            preexec_fn=_joining(group),  # noqa: PLW1509 - one system call, which needs no lock of another thread
        )
    except FileNotFoundError as error:
        if given.directory and not Path(given.directory).is_dir():
            raise OperationFailed(f"no folder {given.directory}") from error
        raise EnvironmentLacks(f"program {words[0]} not found", "install it: rocelab doctor") from error
    except subprocess.SubprocessError as error:
        raise OperationFailed(f"program {words[0]} cannot join its cgroup", "rocelab down, then up") from error


def _joining(group: int | None) -> Callable[[], object] | None:
    """Return the function by which the child joins its cgroup before exec, when it has no children yet."""
    return None if group is None else partial(os.write, group, b"0")


def interact(
    argv: Argv,
    group: int | None = None,
    *,
    is_shell: bool = False,
    place: Place = here,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a program on the caller's terminal and return its exit code as shells do: 128 plus the number of a signal.

    Signals that would end rocelab, and SIGUSR1 and SIGUSR2, go to the program. They reach it once, whether sent by
    the terminal or by kill(1). A shell (``is_shell``) gets SIGHUP for SIGTERM, because an interactive shell ignores
    SIGTERM. It is started in ``place`` as in ``run``.
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
    """Return whether our process group is in the terminal's foreground and gets the signals typed there."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def wait(process: Process, timeout: float) -> int:
    """Return the exit code of a started program. After ``timeout`` seconds, kill it and raise OperationFailed."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        kill_all(process)
        process.wait()
        raise OperationFailed(f"{process.args!r} did not end within {timeout:g} s") from error


def stop(process: Process, grace: float = 2.0, ask: signal.Signals = signal.SIGTERM) -> int:
    """Signal a started program to end, and return its exit code.

    When it has ended, or after ``grace`` seconds, ``kill_all`` ends it with everything in its session. A program that
    had ended before may have left a daemon, which goes on.
    """
    if process.poll() is None:
        process.send_signal(ask)
        _await_end(process, grace)
        if process.returncode is None:
            kill_all(process)
    return process.wait()


def _await_end(process: Process, timeout: float) -> None:
    """Return when a program has ended, or after ``timeout`` seconds.

    Its exit code is not fetched: until then no other process can get its pid, which is that of its process group.
    """
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            readable(descriptor, timeout)
        finally:
            os.close(descriptor)


def readable(descriptor: int | HasFileno, seconds: float = math.inf) -> bool:
    """Wait until a descriptor can be read, at most some seconds, and return whether it can.

    A pidfd can be read once its process has ended. ``select.select`` takes no descriptor above 1023.
    """
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(None if seconds == math.inf else math.ceil(seconds * 1000)))


def kill(pids: Iterable[int], *, meant: Callable[[int], bool], timeout: float = 10.0) -> None:
    """Kill processes that are not our children at once, and return when all of them are gone.

    ``meant`` returns whether a pid is still the intended process. It is called while a pidfd is open (pidfd_open(2)),
    so that no other process can get the pid between check and signal.

    Raises OperationFailed after ``timeout`` seconds, naming the processes that still run.
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
    """Send a signal to processes that are not our children; ``meant`` checks each as in ``kill``."""
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
    """Signal a process to end, and return when it has ended. ``meant`` checks the pid as in ``kill``.

    Raises OperationFailed after ``timeout`` seconds.
    """
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if meant(pid):
                signal.pidfd_send_signal(descriptor, number)
                if not readable(descriptor, timeout):
                    raise OperationFailed(f"process {pid} does not end", "look what it waits for")
        finally:
            os.close(descriptor)
