"""Processes of a job: a rank that dies, fails, hangs or lies is named with its host and step, and nothing is left."""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import signal
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.jobs import job_failure, job_session, rank_program
from lab.jobs.bus_bandwidth import RankSteps
from lab.jobs.job_session import JobPatience, Rank, run_ranks
from lab.kernel.process import process
from lab.kernel.process.netns import Namespace
from lab.kernel.process.node_session import NodeSession
from lab.rdma import sysfs
from lab.rdma.measure import Nic
from tests.patience import PATIENCE

PROGRAM: Final = """
import json, os, signal, sys, time
fd, me = int(os.environ["PMI_FD"]), os.environ["PMI_RANK"]
def ask(line):
    os.write(fd, (line + "\\n").encode())
    said = b""
    while not said.endswith(b"\\n"):
        said += os.read(fd, 1)
    return said.decode()
def tell(what):
    print(json.dumps(what), flush=True)
assert "rc=0" in ask("cmd=init pmi_version=1 pmi_subversion=1")
ask(f"cmd=put kvsname=job key={me} value=of-{me}")
ask("cmd=barrier_in")
assert "value=of-0" in ask("cmd=get kvsname=job key=0")
tell({"step": [1024, 0]})
"""
READY: Final = 'tell({"ready_ns": time.monotonic_ns()})\n'
WAITING: Final = f"{READY}time.sleep(60)"
STOPPED: Final = f"""
parent = os.getpid()
if os.fork() == 0:
    while open(f"/proc/{{parent}}/stat").read().rpartition(") ")[2][0] != "T":
        time.sleep(0.01)
    {READY}
    os._exit(0)
os.kill(parent, signal.SIGSTOP)
"""
GOOD: Final = f"""{READY}
tell({{"size": 1024, "begin_ns": [10], "end_ns": [20 + int(me)], "wrong": 0}})
tell({{"done": int(me)}})
assert not sys.stdin.read()
"""
SHORT: Final = JobPatience(start=60.0, stall=0.5)
"""The ranks of a test are ready once they have reported all else."""


@pytest.fixture(autouse=True)
def _in_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: NodeSession, argv: process.Argv, **how: Any) -> process.Process:
        return process.start(argv, **how)

    monkeypatch.setattr(NodeSession, "start", start)
    monkeypatch.setattr(job_session, "_LAST_WORDS", 0.0)  # the other ranks of these tests have nothing to add


def ranks(*ends: str) -> list[Rank]:
    """Ranks that do the same at first, and each its own at the end."""
    return [
        Rank(
            number=number,
            nic=Nic(f"h{number + 1}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")),
            argv=[sys.executable, "-c", PROGRAM + end],
            environment={"PMI_RANK": str(number)},
        )
        for number, end in enumerate(ends)
    ]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def run(job: list[Rank], patience: JobPatience | None = None) -> float:
    before = open_files()
    try:
        return run_ranks(job, patience or JobPatience(), lambda *_: None)
    finally:
        assert all(rank.code is not None for rank in job)
        assert not any(Path(f"/proc/{rank.started.program.pid}").exists() for rank in job)
        assert open_files() == before


def steps(end: int) -> RankSteps:
    return RankSteps(begin_ns=(10,), end_ns=(end,), wrong=0)


def test_ranks_find_each_other_and_their_results_are_kept() -> None:
    job = ranks(GOOD, GOOD, GOOD)
    assert run(job) > 0
    assert [rank.results for rank in job] == [{1024: steps(20 + number)} for number in range(3)]


@pytest.mark.parametrize(
    ("end", "error", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", OperationFailed, "rank 1 at h2 was killed (SIGKILL) in step 1 of"),
        (
            "print('UCX ERROR transport retry counter exceeded', file=sys.stderr); sys.exit(16)",
            OperationFailed,
            "rank 1 at h2: a peer stopped acknowledging (retry counter exceeded) in step 1 of 1.024 KB: look for",
        ),
        (
            "print('send completion with error: Work Request Flushed Error', file=sys.stderr); os.abort()",
            OperationFailed,
            "rank 1 at h2: its NIC ended a QP with an error in step 1 of 1.024 KB: is the job's mtu larger than",
        ),
        ("sys.exit(0)", OperationFailed, "rank 1 at h2 ended with 0 in step 1 of 1.024 KB: it printed nothing"),
        (
            "print('it is broken', file=sys.stderr); sys.exit(5)",
            OperationFailed,
            "rank 1 at h2 ended with 5 in step 1 of 1.024 KB: it is broken",
        ),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 1)", OperationFailed, "rank 1 at h2 was killed (signal 35)"),
        ("print('{', flush=True); time.sleep(60)", OperationFailed, "rank 1 at h2 sent a report that cannot be read"),
        ("tell({'step': 5}); time.sleep(60)", OperationFailed, "rank 1 at h2 sent a report that cannot be read"),
        ("os.write(1, b'x' * (1 << 22))", OperationFailed, "rank 1 at h2 sent a report that cannot be read"),
        ("ask('cmd=spawn')", OperationFailed, "rank 1 at h2 sent no PMI-1: the unknown command 'spawn' (in step 1"),
        ("while True: os.write(fd, b'cmd=get_maxes\\n')", OperationFailed, "rank 1 at h2 does not read PMI replies"),
    ],
)
def test_a_rank_that_dies_is_named_and_ends_the_others(end: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        run(ranks(WAITING, end, WAITING))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("others", ["", "UCX ERROR transport retry counter exceeded"])
def test_a_rank_that_was_killed_is_named_before_those_that_abort_because_of_it(
    monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    """The one that is named first has noticed it: MPI aborts."""
    codes = {0: -signal.SIGABRT, 1: -signal.SIGKILL, 2: -signal.SIGABRT}
    monkeypatch.setattr(Rank, "code", property(lambda rank: codes[rank.number]))
    monkeypatch.setattr(Rank, "output", lambda _: others)
    job = ranks(GOOD, GOOD, GOOD)
    assert str(job_failure.ended_early(job)).startswith("rank 1 at h2 was killed (SIGKILL)")
    codes[1] = -signal.SIGABRT
    alone = "rank 0 at h1: a peer stopped acknowledging" if others else "rank 0 at h1 was killed (SIGABRT)"
    assert str(job_failure.ended_early(job)).startswith(alone)


def test_ucx_without_rdma_is_an_environment_that_lacks_it() -> None:
    job = ranks(GOOD, GOOD)
    said = "UCX WARN transport 'rc_verbs' is not available, please use one or more of: self, tcp"
    job[1].argv = [sys.executable, "-c", f"import sys; print({said!r}, file=sys.stderr); sys.exit(16)"]
    with pytest.raises(
        EnvironmentLacks, match="rank 1 at h2: UCX finds no RDMA device while it started: no rank may"
    ):
        run(job)


def test_a_rank_that_hangs_is_named_as_it_is_furthest_behind() -> None:
    later = f'tell({{"step": [1024, 1]}})\n{WAITING}'
    with pytest.raises(
        OperationFailed, match=r"rank 1 at h2 made no progress in step 1 of 1.024 KB: no RDMA packet came"
    ):
        run(ranks(later, WAITING, later), SHORT)


def test_a_stopped_rank_is_named_before_those_that_wait_for_it() -> None:
    with pytest.raises(OperationFailed, match=r"rank 2 at h3 is stopped by a signal or a debugger in step 1 of"):
        run(ranks(WAITING, WAITING, STOPPED), SHORT)


def test_packets_are_no_progress_while_a_rank_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its peers may retransmit without end."""
    total = itertools.count()
    monkeypatch.setattr(sysfs, "new_packets", lambda _: next(total))
    with pytest.raises(OperationFailed, match=r"rank 1 at h2 is stopped by a signal or a debugger in step 1 of"):
        run(ranks(WAITING, STOPPED), SHORT)


def test_only_the_end_of_a_long_output_is_kept() -> None:
    """A rank that prints without end fills neither a disk nor memory, and does not wait for a reader."""
    prints = "for _ in range(1 << 15): print('UCX WARN ' * 10, file=sys.stderr)\n"
    job = ranks(GOOD, f"{prints}print('the cause', file=sys.stderr); sys.exit(5)")
    with pytest.raises(OperationFailed, match=r"ended with 5 in step 1 of 1\.024 KB: the cause"):
        run(job)
    assert len(job[1].output()) == 1 << 16


def test_the_limit_of_open_files_is_raised_for_many_ranks() -> None:
    """In a child process: a thread that waits in accept(2) has the number of a file that is not open yet."""

    def run_with_few_files() -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 8, hard))
        run(ranks(GOOD, GOOD, GOOD))

    child = multiprocessing.get_context("fork").Process(target=run_with_few_files)
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0


def test_an_interruption_ends_every_rank() -> None:
    def interrupt(stage: str, done: int, _: int) -> None:
        if stage == "start" and done:
            raise KeyboardInterrupt

    job = ranks(*[WAITING] * 3)
    with pytest.raises(KeyboardInterrupt):
        run_ranks(job, JobPatience(), interrupt)
    assert not any(Path(f"/proc/{rank.started.program.pid}").exists() for rank in job)


def test_a_rank_ends_with_its_launcher() -> None:
    """Even in a library that never returns from MPI_Init."""
    waits = (
        "import runpy, sys, time, types\n"
        f"module = runpy.run_path({rank_program.__file__!r}, run_name='rank')\n"
        "module['main'](['none', 'allreduce', '1', '1', '1024'], lambda _: time.sleep(60))\n"
    )
    streams: dict[str, Any] = {"stdin": process.PIPE, "stdout": process.PIPE, "stderr": process.DEVNULL}
    with process.ended(lambda: process.start([sys.executable, "-c", waits], **streams)) as program:
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(PATIENCE) == rank_program.LAUNCHER_GONE


@pytest.mark.parametrize(
    ("output", "remedy"),
    [("", "the machine may be too busy: use fewer hosts"), ("Cannot allocate memory", "fewer hosts")],
)
def test_a_remedy_suits_transfers_as_well(output: str, remedy: str) -> None:
    """A transfer has hosts and no ``--ranks``."""
    with pytest.raises(OperationFailed) as caught:
        run(ranks(f"import sys; sys.stderr.write({output!r}); sys.exit(5)", WAITING))
    assert caught.value.remedy.endswith(remedy)
