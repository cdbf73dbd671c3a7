"""The program of one host of a transfer: moves the bytes of each request with Mooncake, and reports when.

It imports one module of rocelab and no package, so that it starts fast in an emulated guest. It speaks to its
launcher as a rank of MPI does (``rank_program``): reports on standard output, and PMI-1, by which hosts exchange the
addresses of their memory. The end of its standard input ends it.

Mooncake polls for completions in threads of its own, and uses a CPU for as long as a request lasts. Their nice value
is the highest, so that they take no time from the network, which the same CPU emulates.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import mmap
import os
import socket
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from lab.jobs.rank_program import ELEMENT_OCTETS, LauncherLink, pattern, wrong_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOK: Final = 0.0005
"""Seconds between two looks at the requests under way, by which the end of one is reported late at most."""
_NICE: Final = 19
_COMPLETED: Final = 1


class Engine(Protocol):
    """The used calls of ``mooncake.engine.TransferEngine``. They return 0 for success, where nothing else is said."""

    def initialize(self, host: str, metadata: str, protocol: str, device: str, /) -> int:
        """Open the device, and listen at an address for peers."""

    def get_rpc_port(self) -> int:
        """Return the TCP port on which it listens."""

    def register_memory(self, address: int, octets: int, /) -> int:
        """Register memory for RDMA."""

    def batch_transfer_async_write(self, peer: str, local: list[int], remote: list[int], octets: list[int], /) -> int:
        """Begin RDMA writes, and return the number of the batch; below 1 for an error."""

    def batch_transfer_async_read(self, peer: str, local: list[int], remote: list[int], octets: list[int], /) -> int:
        """Begin RDMA reads, as above."""

    def transfer_check_status(self, batch: int, /) -> int:
        """Return 1 for a batch that is complete, 0 while it is not, and less if it failed."""


class Pmi:
    """The client of PMI-1: what hosts know of each other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._begun = b""

    def _ask(self, line: str) -> dict[str, str]:
        self._connection.sendall(f"{line}\n".encode())
        while b"\n" not in self._begun:
            octets = self._connection.recv(1 << 16)
            if not octets:
                raise SystemExit("the launcher has gone")
            self._begun += octets
        reply, _, self._begun = self._begun.partition(b"\n")
        return dict(word.split("=", 1) for word in reply.decode().split(" ") if "=" in word)

    def put(self, key: str, value: str) -> None:
        """Publish a value."""
        self._ask(f"cmd=put kvsname=job key={key} value={value}")

    def get(self, key: str) -> str:
        """Return a value that another host has published before a barrier."""
        return self._ask(f"cmd=get kvsname=job key={key}")["value"]

    def barrier(self) -> None:
        """Return when all hosts have called it."""
        self._ask("cmd=barrier_in")


class TransferHost:
    """One host: its memory, in which each request has a slot, and its engine."""

    def __init__(self, engine: Engine, plan: dict[str, Any]) -> None:
        self.engine, self.plan = engine, plan
        self.size: int = plan["size"]
        self._count = self.size // ELEMENT_OCTETS
        octets = max(1, len(plan["scales"])) * self.size
        self._memory = mmap.mmap(-1, octets)
        if plan["filled"]:
            for slot, scale in enumerate(plan["scales"]):
                self._memory[self._octets_of(slot)] = pattern(scale, 0, self._count)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._must("its device cannot be used", engine.initialize(
            plan["address"], "P2PHANDSHAKE", "rdma", plan["device"]
        ))  # fmt: skip
        self._must("its memory cannot be registered", engine.register_memory(self.address, octets))

    def _octets_of(self, slot: int) -> slice:
        return slice(slot * self.size, (slot + 1) * self.size)

    @staticmethod
    def _must(what: str, code: int) -> None:
        if code:
            raise SystemExit(f"{what}: Mooncake returned {code}")

    def published(self) -> str:
        """Return what another host needs for a request: where the engine listens, and the address of the memory."""
        return f"{self.plan['address']}:{self.engine.get_rpc_port()}/{self.address}"

    def connect(self, peers: dict[int, str]) -> None:
        """Move the first element of a request for each target: Mooncake connects QPs when it first needs them."""
        first: dict[int, int] = {}
        for number, request in enumerate(self.plan["requests"]):
            first.setdefault(request["target"], number)
        for number in first.values():
            batch = self._begin(number, peers, ELEMENT_OCTETS)
            while not self._is_complete(batch, number, peers):
                time.sleep(LOOK)

    def run(self, peers: dict[int, str], tell: Callable[[Any], None]) -> tuple[list[int], list[int]]:
        """Make all requests, and return when each began and when it was complete, in ns of CLOCK_MONOTONIC."""
        requests = self.plan["requests"]
        begins, ends = [0] * len(requests), [0] * len(requests)
        waiting, under_way = deque(range(len(requests))), dict[int, int]()
        start = time.monotonic_ns()
        while waiting or under_way:
            now = time.monotonic_ns()
            while waiting and self._is_due(requests[waiting[0]], now - start, under_way):
                number = waiting.popleft()
                tell({"step": [self.size, number]})
                begins[number] = time.monotonic_ns()
                under_way[self._begin(number, peers, self.size)] = number
            time.sleep(self._pause(requests, waiting, under_way, time.monotonic_ns() - start))
            for batch, number in list(under_way.items()):
                if self._is_complete(batch, number, peers):
                    ends[number] = time.monotonic_ns()
                    del under_way[batch]
        return begins, ends

    def _is_complete(self, batch: int, number: int, peers: dict[int, str]) -> bool:
        status = self.engine.transfer_check_status(batch)
        if status < 0:
            where = peers[self.plan["requests"][number]["target"]].rpartition("/")[0]
            raise SystemExit(f"request {number + 1} to {where} failed: Mooncake returned {status}")
        return status == _COMPLETED

    @staticmethod
    def _is_due(request: dict[str, Any], elapsed: int, under_way: dict[int, int]) -> bool:
        arrival = request["arrival_ns"]
        return not under_way if arrival is None else arrival <= elapsed

    @staticmethod
    def _pause(
        requests: Sequence[dict[str, Any]], waiting: Sequence[int], under_way: dict[int, int], elapsed: int
    ) -> float:
        """Return the seconds until the next look, or until the next request where none is under way."""
        if under_way or not waiting or requests[waiting[0]]["arrival_ns"] is None:
            return LOOK
        arrival: int = requests[waiting[0]]["arrival_ns"]
        return max(0.0, (arrival - elapsed) / 1e9)

    def _begin(self, number: int, peers: dict[int, str], octets: int) -> int:
        """Begin a request, or the first octets of it, and return the number of its batch."""
        request = self.plan["requests"][number]
        where, _, address = peers[request["target"]].rpartition("/")
        writes = self.plan["verb"] == "write"
        begin = self.engine.batch_transfer_async_write if writes else self.engine.batch_transfer_async_read
        local, remote = self.address + number * self.size, int(address) + request["slot"] * self.size
        batch = begin(where, [local], [remote], [octets])
        if batch < 1:
            raise SystemExit(f"request {number + 1} to {where} could not begin: Mooncake returned {batch}")
        return batch

    def wrong(self) -> int:
        """Return the number of wrong elements in the memory that other hosts' data was for."""
        if self.plan["filled"]:
            return 0
        return sum(
            wrong_elements(self._memory[self._octets_of(slot)], pattern(scale, 0, self._count))
            for slot, scale in enumerate(self.plan["scales"])
        )


def serve(host: TransferHost, rank: int, pmi: Pmi, tell: Callable[[Any], None]) -> None:
    """Run the plan of one host beside all others, and report its requests and what is wrong with its data."""
    pmi.put(f"host-{rank}", host.published())
    pmi.barrier()
    peers = {each: pmi.get(f"host-{each}") for each in host.plan["targets"]}
    host.connect(peers)
    tell({"ready_ns": time.monotonic_ns()})
    pmi.barrier()
    begins, ends = host.run(peers, tell)
    pmi.barrier()
    tell({"size": host.size, "begin_ns": begins, "end_ns": ends, "wrong": host.wrong()})
    pmi.barrier()


def load_engine(module: str) -> Engine:
    """Return an engine of Mooncake's extension module; its package would import much more."""
    loader = importlib.machinery.ExtensionFileLoader("engine", module)
    spec = importlib.util.spec_from_loader("engine", loader)
    if spec is None:
        raise SystemExit(f"{module} cannot be loaded")
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    engine: Engine = loaded.TransferEngine()
    return engine


def main(words: Sequence[str]) -> None:
    """Run one host: ``MODULE``, Mooncake's extension module."""
    (module,) = words
    launcher = LauncherLink()
    os.nice(_NICE)
    rank = int(os.environ["PMI_RANK"])
    try:
        host = TransferHost(load_engine(module), launcher.plan())
        serve(host, rank, Pmi(socket.socket(fileno=int(os.environ["PMI_FD"]))), launcher.report)
    except (SystemExit, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)  # without the engine's destructor, which waits for its threads, and prints after the error
    launcher.finish(rank)
