"""The program of a transfer's host: right data in the right place, times of each request, and failures by name.

Hosts are threads of this process, and an engine copies memory. The VM has the real one.
"""

from __future__ import annotations

import ctypes
import json
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import pytest

from lab.jobs.job_session import Rank
from lab.jobs.pmi_server import PmiServer
from lab.jobs.rank_program import PLAN
from lab.jobs.transfers.transfer_job import transfer_result
from lab.jobs.transfers.transfer_program import Engine, Pmi, TransferHost, load_engine, serve
from lab.jobs.transfers.transfer_spec import TransferSpec, TransferVerb, plans
from lab.kernel.process.netns import Namespace
from lab.rdma.measure import Nic
from lab.shipped import PACKAGE
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

SIZE: Final = 4000
LOOKS: Final = 3
"""Looks before a copy is complete."""


class CopyingEngine:
    """Copies memory of this process; ``offset`` puts the octets of writes in a wrong place."""

    def __init__(self, offset: int = 0, code: int = 0, batch: int = 1, status: int = 1) -> None:
        self.offset, self.code, self.first, self.status = offset, code, batch, status
        self.looks: dict[int, int] = {}
        self.peers: list[str] = []

    def initialize(self, _host: str, _metadata: str, _protocol: str, _device: str, /) -> int:
        return self.code

    def get_rpc_port(self) -> int:
        return 15000

    def register_memory(self, _address: int, _octets: int, /) -> int:
        return 0

    def _move(self, peer: str, target: int, source: int, octets: int) -> int:
        self.peers.append(peer)
        ctypes.memmove(target, source, octets)
        number = self.first + len(self.looks) if self.first > 0 else self.first
        self.looks[number] = 0
        return number

    def batch_transfer_async_write(self, peer: str, local: list[int], remote: list[int], octets: list[int], /) -> int:
        return self._move(peer, remote[0] + self.offset, local[0], octets[0] - self.offset)

    def batch_transfer_async_read(self, peer: str, local: list[int], remote: list[int], octets: list[int], /) -> int:
        return self._move(peer, local[0], remote[0], octets[0])

    def transfer_check_status(self, batch: int, /) -> int:
        self.looks[batch] += 1
        return self.status if self.looks[batch] > LOOKS else 0


def nic(number: int) -> Nic:
    return Nic(f"h{number}", "eth1", Namespace("none"), f"t.h{number}.eth1", ip_address(f"10.0.0.{number}"))


def pmi_of(hosts: int) -> list[Pmi]:
    """A client for each host, answered by the launcher's server."""
    server, pairs, lock = PmiServer(hosts), [socket.socketpair() for _ in range(hosts)], threading.Lock()

    def answer(rank: int) -> None:
        while octets := pairs[rank][0].recv(1 << 16):
            with lock:
                for number, reply in server.receive(rank, octets):
                    pairs[number][0].sendall(reply)

    for rank in range(hosts):
        threading.Thread(target=answer, args=[rank], daemon=True).start()
    return [Pmi(theirs) for _, theirs in pairs]


def moved(spec: TransferSpec, engines: list[CopyingEngine], initiators: int) -> list[Rank]:
    """Run all hosts, and return them as the launcher's ranks with their reports."""
    nics = [nic(number) for number in range(1, 1 + len(engines))]
    made = [json.loads(each) for each in plans(spec, nics[:initiators], nics[initiators:])]
    hosts = [TransferHost(engine, plan) for engine, plan in zip(engines, made, strict=True)]
    ranks = [Rank(number=number, nic=each, argv=[], environment={}) for number, each in enumerate(nics)]
    with ThreadPoolExecutor(len(hosts)) as threads:
        told = [
            threads.submit(serve, host, rank, pmi, ranks[rank]._note)
            for rank, (host, pmi) in enumerate(zip(hosts, pmi_of(len(hosts)), strict=True))
        ]
        for each in told:
            each.result(PATIENCE)
    return ranks


@pytest.mark.parametrize("verb", TransferVerb)
def test_every_request_is_where_it_belongs(verb: TransferVerb) -> None:
    spec = TransferSpec(size=SIZE, requests=5, verb=verb)
    engines = [CopyingEngine() for _ in range(4)]
    result = transfer_result(moved(spec, engines, 2), 2, spec, link_rate=10**8, start=0.5)
    assert result.wrong == 0
    assert [each.requests for each in (*result.of_host, result.all)] == [5, 5, 10]
    assert [each.target for each in result.requests if each.host == "h1"] == ["h3", "h4", "h3", "h4", "h3"]
    assert all(each.time_s > 0 for each in result.requests)
    assert result.all.p50_s <= result.all.p95_s <= result.all.p99_s == result.all.max_s
    assert result.roofline_s == SIZE * 8 / 10**8
    assert engines[0].peers[0] == "10.0.0.3:15000"


def test_a_request_begins_after_the_one_before_or_at_its_time() -> None:
    after = TransferSpec(size=SIZE, requests=4)
    (made, _) = moved(after, [CopyingEngine(), CopyingEngine()], 1)
    times = made.results[SIZE]
    assert all(begin >= end for end, begin in zip(times.end_ns, times.begin_ns[1:], strict=False))
    timed = TransferSpec(size=SIZE, requests=3, interval=0.05)
    (made, _) = moved(timed, [CopyingEngine(), CopyingEngine()], 1)
    begins = made.results[SIZE].begin_ns
    assert [begin - begins[0] >= number * 50_000_000 - 1_000_000 for number, begin in enumerate(begins)] == [True] * 3


def test_data_in_a_wrong_place_is_counted() -> None:
    spec = TransferSpec(size=SIZE, requests=2)
    ranks = moved(spec, [CopyingEngine(offset=4), CopyingEngine()], 1)
    assert transfer_result(ranks, 1, spec, link_rate=10**8, start=0.0).wrong > SIZE // 4


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        (CopyingEngine(code=-2), "device cannot be used: Mooncake returned -2"),
        (CopyingEngine(batch=-1), "request 1 to 10.0.0.2:15000 could not begin"),
        (CopyingEngine(status=-1), "request 1 to 10.0.0.2:15000 failed"),
    ],
)
def test_an_error_of_the_engine_names_the_request(engine: Engine, named: str) -> None:
    (plan, _) = plans(TransferSpec(size=SIZE), [nic(1)], [nic(2)])
    memory = ctypes.create_string_buffer(10 * SIZE)
    with pytest.raises(SystemExit, match=named):
        TransferHost(engine, json.loads(plan)).run({1: f"10.0.0.2:15000/{ctypes.addressof(memory)}"}, lambda _: None)


_UNUSABLE: Final = """
import threading
from lab.jobs.transfers import transfer_program

class Engine:
    def initialize(self, *_):
        threading.Thread(target=threading.Event().wait).start()
        return -2

transfer_program.load_engine = lambda _: Engine()
transfer_program.main(["engine.so"])
"""


def test_an_error_ends_the_program_whatever_the_threads_of_the_engine_do() -> None:
    (plan, _) = plans(TransferSpec(size=SIZE), [nic(1)], [nic(2)])
    with tempfile.TemporaryFile() as file:
        file.write(plan)
        file.seek(0)
        variables = {PLAN: str(file.fileno()), "PMI_RANK": "0", "PMI_FD": "0", "PYTHONPATH": str(PACKAGE.parent)}
        process = subprocess.Popen(
            [sys.executable, "-c", _UNUSABLE], env=variables, pass_fds=[file.fileno()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    with process:
        try:
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == "its device cannot be used: Mooncake returned -2\n"


def test_a_launcher_that_has_gone_ends_the_host() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises((SystemExit, BrokenPipeError)):
        Pmi(theirs).barrier()


def test_a_module_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine.so").write_bytes(b"no library")
    with pytest.raises(ImportError, match=r"engine\.so"):
        load_engine(str(tmp_path / "engine.so"))
