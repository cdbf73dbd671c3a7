"""Programs that fail, hang or are missing; signals that wait; threads that hand their errors on."""

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pexpect
import pytest

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed
from lab.kernel.process import process, signals
from lab.kernel.process.threads import in_thread
from tests.patience import PATIENCE


def test_a_failure_is_told_by_the_last_line_of_the_program() -> None:
    with pytest.raises(CommandFailed, match=r"sh .* ended with 3: the end$") as failure:
        process.run(["sh", "-c", "echo first >&2; echo the end >&2; exit 3"])
    assert failure.value.returncode == 3
    assert process.run(["sh", "-c", "exit 3"], check=False).returncode == 3


def test_a_missing_program_and_one_that_hangs() -> None:
    with pytest.raises(EnvironmentLacks, match="program no-such-program not found"):
        process.run(["no-such-program"])
    with pytest.raises(EnvironmentLacks, match="program no-such-program not found: apt-get install nothing"):
        process.find_tool("no-such-program", "nothing")
    with pytest.raises(OperationFailed, match=r"sleep 60 did not end within 0\.1 s"):
        process.run(["sleep", "60"], timeout=0.1)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 600 & echo $! > pid; wait",
        "sleep 600 & echo $! > pid",  # it keeps the pipe open, though the program has ended
        "(sleep 600 & echo $! > pid; wait) | cat",
    ],
)
def test_what_hangs_ends_with_what_it_has_started(tmp_path: Path, script: str) -> None:
    with pytest.raises(OperationFailed, match="did not end within"):
        process.run(["sh", "-c", f"cd {tmp_path}; {script}"], timeout=2)
    await_end(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    "end", [lambda program: process.wait(program, 0.0), lambda program: process.stop(program, 0.0)]
)
def test_so_does_a_started_one_that_does_not_end_when_asked(end: Callable[[process.Process], object]) -> None:
    script = "trap '' TERM; sleep 600 & echo $!; while :; do wait; done"
    with process.start(["sh", "-c", script], stdout=process.PIPE) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        with contextlib.suppress(OperationFailed):
            end(program)
    await_end(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_so_does_a_stopped_one_that_ends_when_asked(number: signal.Signals) -> None:
    """The program ends and leaves its child, as a shell and many wrappers do."""
    script = f"trap 'exit 5' {number.name[3:]}; sleep 600 & echo $!; while :; do wait; done"
    with process.start(["sh", "-c", script], stdout=process.PIPE) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert process.stop(program, PATIENCE, number) == 5
    await_end(pid)


def test_stopping_a_program_of_our_own_session_ends_it_alone() -> None:
    within = process.Surroundings(new_session=False)
    with (
        process.start(["sleep", "600"], within=within) as other,
        process.start(["sleep", "600"], within=within) as program,
    ):
        assert process.stop(program) == -signal.SIGTERM
        assert other.poll() is None
        assert process.stop(other) == -signal.SIGTERM


def test_a_program_is_stopped_beside_more_than_a_thousand_open_files() -> None:
    """As in a fabric of a hundred nodes. select(2) takes no descriptor above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        with contextlib.ExitStack() as opened, process.start(["sleep", "600"]) as program:
            for _ in range(1100):
                opened.callback(os.close, os.dup(1))
            assert process.stop(program) == -signal.SIGTERM
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_program_that_ends_may_leave_one_running() -> None:
    """As daemons do."""
    pid = int(process.run(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"]).stdout)
    assert Path("/proc", str(pid), "comm").read_text() == "sleep\n"
    os.kill(pid, signal.SIGKILL)


def await_end(pid: int) -> None:
    """Return when a process has ended; it may stay in the table until whoever has inherited it looks."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            assert select.select([descriptor], [], [], PATIENCE)[0], f"process {pid} still runs"
        finally:
            os.close(descriptor)


def test_kill_returns_when_all_have_ended_and_ignores_those_that_had() -> None:
    programs = [process.start(["sleep", "60"]) for _ in range(3)]
    ended = process.start(["true"])
    ended.wait()
    process.kill([program.pid for program in programs] + [ended.pid], meant=lambda _: True)
    for program in programs:
        assert os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        assert program.wait() == -signal.SIGKILL


def test_an_interactive_program_takes_ctrl_c_itself() -> None:
    """The parent is signalled too, as the whole foreground group is, and goes on."""
    code = process.interact(["sh", "-c", "trap 'exit 9' INT; kill -INT $PPID; kill -INT $$; sleep 60"])
    assert code == 9
    assert process.interact(["sh", "-c", "kill -KILL $$"]) == 128 + signal.SIGKILL


INTERACT = "import sys; from lab.kernel.process import process; sys.exit(process.interact(sys.argv[1:], is_shell={}))"


@contextlib.contextmanager
def interacting(script: str, *, is_shell: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``sh -c script`` as ``rocelab exec`` does, once the script has said that it is ready."""
    words = [sys.executable, "-c", INTERACT.format(is_shell), "sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as ours:
        assert ours.stdout is not None
        try:
            assert ours.stdout.readline() == "ready\n"
            yield ours
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ours.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to us", "to our group"])
def test_signals_are_passed_on_to_an_interactive_program_once(
    send: Callable[[int, int], None], number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}' {name}; trap 'exit 7' USR2; echo ready; while :; do sleep 0.01; done"
    with interacting(script) as ours:
        send(ours.pid, number)
        assert ours.stdout is not None
        assert ours.stdout.readline() == f"got {name}\n"
        send(ours.pid, signal.SIGUSR2)
        assert (ours.stdout.read(), ours.wait(PATIENCE)) == ("", 7)


def test_an_interactive_program_that_a_signal_ends_ends_with_what_it_has_started() -> None:
    with interacting("echo ready; sleep 600; true") as ours:
        os.kill(ours.pid, signal.SIGTERM)
        assert ours.stdout is not None
        assert ours.stdout.read() == "", "nobody has the pipe open any more"
        assert ours.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_shell_that_is_to_end_is_hung_up_on() -> None:
    """bash(1): an interactive shell ignores SIGTERM."""
    with interacting(
        "trap '' TERM; trap 'exit 5' HUP; echo ready; while :; do sleep 0.01; done", is_shell=True
    ) as ours:
        os.kill(ours.pid, signal.SIGTERM)
        assert ours.wait(PATIENCE) == 5


def test_what_is_typed_reaches_an_interactive_program_once_and_what_is_sent_too() -> None:
    """Here the terminal signals both: we are in its foreground."""
    script = "trap 'echo got INT' INT; trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    words = ["-c", INTERACT.format(False), "sh", "-c", script]
    with closing(pexpect.spawn(sys.executable, words, timeout=PATIENCE, encoding="utf-8")) as ours:
        ours.expect_exact("ready")
        ours.sendintr()
        ours.expect_exact("got INT")
        ours.kill(signal.SIGTERM)
        ours.expect(pexpect.EOF)
        assert "got" not in (ours.before or "")
        ours.wait()
        assert ours.exitstatus == 7


def test_held_signals_come_afterwards() -> None:
    """Also with another thread about, which the kernel may give them to; as a progress bar has one."""
    reached = []
    enough = threading.Event()
    other = threading.Thread(target=enough.wait)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - where it is raised is what is tested
            with signals.held():
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                reached.append("end of the block")
            reached.append("beyond")
    finally:
        enough.set()
        other.join()
    assert reached == ["end of the block"]


def test_a_thread_hands_on_its_result_and_its_error() -> None:
    assert in_thread(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 // 0)


def test_a_signal_waits_for_the_thread_and_programs_are_started_without_the_mask() -> None:
    """Daemons that inherited a blocked SIGTERM could not be asked to end."""
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    finished = []

    def work() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)  # the main thread would be interrupted here, were it not told to wait
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        finished.append(said.strip())
        return said

    with pytest.raises(KeyboardInterrupt):
        in_thread(work)
    assert finished == ["[]"]
