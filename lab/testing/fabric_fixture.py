"""The test fixtures: a running fabric with traffic, counters, captures, faults and recordings."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.faults import fault_engine
from lab.faults.fault_request import FaultRequest
from lab.faults.ledger import Holder
from lab.model.hosts import addresses_of, parse_pair
from lab.rdma import perftest
from lab.rdma.continuous_transfers import flowing
from lab.rdma.measure import BandwidthTest, Verb
from lab.rdma.nic_choice import find_pair
from lab.rdma.perftest_session import Patience
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import DEFAULT_HZ, Recorder
from lab.telemetry.store.recording_folder import RecordKind
from lab.testing.block_counters import counting
from lab.testing.block_packets import capturing
from lab.testing.count import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lab.backends import backend
    from lab.faults.ledger import Entry
    from lab.kernel.process.process import Completed
    from lab.model.topology import Topology
    from lab.testing.block_counters import BlockCounters
    from lab.testing.block_packets import Packets

_POLL: Final = 0.02
_ADDRESS: Final = r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]*"


@dataclass(repr=False)
class FabricFixture:
    """A running fabric of a test. Captures and recordings of the test go to ``folder``."""

    live: backend.Fabric
    folder: Path
    recorder: Recorder | None = None
    """The active recorder, which records commands and faults."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __repr__(self) -> str:
        return f"<fabric {self.name}>"

    @property
    def name(self) -> str:
        """The fabric's name on this machine, for ``rocelab --fabric``."""
        return self.live.name

    @property
    def topology(self) -> Topology:
        """The fabric's topology."""
        return self.live.topology

    def run(self, node: str, *argv: str, timeout: float = 60.0, check: bool = True) -> Completed:
        """Run a program in a node and return its output and exit code.

        Raises OperationFailed if the exit code is not 0, unless ``check`` is off, and after ``timeout`` seconds.
        """
        self.topology.node(node)
        began = time.monotonic_ns()
        done = self.live.namespace(node).run(argv, timeout=timeout, check=False)
        if self.recorder is not None:
            self.recorder.command(node, argv, done, began=began)
        if check and done.returncode:
            raise OperationFailed(f"{' '.join(argv)} in {node} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def ping(self, source: str, target: str, times: int = 1) -> Count:
        """Return how many pings a node, or any address, answers; sent every 20 ms, with a second's wait for the last.

        Raises UsageError if the target is neither a node nor an address.
        """
        address = target if re.fullmatch(_ADDRESS, target) else str(addresses_of(self.live.plan, target)[0])
        done = self.run(source, "ping", "-c", str(times), "-i", "0.02", "-W", "1", address, check=False)
        answers = sum("bytes from" in line for line in done.stdout.splitlines())
        said = [line for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line]
        return Count(answers, f"answers of {target} to {times} pings of {source}", said)

    @contextlib.contextmanager
    def writing(
        self, *pairs: str, qps: int = 1, size: int = 65536, verb: Verb = Verb.WRITE, tclass: int | None = None
    ) -> Iterator[None]:
        """Run RDMA transfers between pairs of hosts like ``h1:h4`` for the block; all send when the block begins.

        At the end, raises OperationFailed with perftest's message for a pair that failed.
        """
        told = {} if tclass is None else {"tclass": tclass}
        test = BandwidthTest(verb=verb, size=size, qps=qps, duration=1, **told)
        with flowing([find_pair(self.live, *parse_pair(pair)) for pair in pairs], test) as flows:
            yield
            for flow in flows:
                if not flow.running:
                    raise OperationFailed(f"{flow.pair} gave up: {flow.last_words}")

    def goodput(self, *pairs: str, duration: int = 2, qps: int = 1, size: int = 65536) -> dict[str, int]:
        """Return the goodput of each pair in bit/s over ``duration`` seconds, all at once, measured by perftest.

        A pair that completes no message in that time, because of loss or a missing answer, has 0.
        """
        test = BandwidthTest(size=size, qps=qps, duration=duration)
        found = [find_pair(self.live, *parse_pair(pair)) for pair in pairs]
        results = perftest.measure_bandwidth(found, test, patience=Patience(silence=True))
        return {pair: result.goodput_bps for pair, result in zip(pairs, results, strict=True)}

    def counting(self) -> AbstractContextManager[BlockCounters]:
        """Count port counters for the length of a block."""
        return counting(replace(self.live))

    def capturing(self, *links: str, keep: str = "") -> AbstractContextManager[Packets]:
        """Capture packets of links, named as for ``rocelab capture``, for a block; ``keep`` is a capture filter."""
        return capturing(self.live, self.folder / f"capture-{next(self._numbers)}.pcapng", links, keep)

    def hold(self, seconds: float) -> None:
        """Wait for some seconds, for traffic or a fault to take effect."""
        time.sleep(seconds)

    def until(self, done: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        """Wait for ``done``. Raises OperationFailed, which names ``what``, after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise OperationFailed(f"{what}: not within {timeout:g} s")
            time.sleep(_POLL)


@dataclass
class Injected:
    """An injected fault; as a context manager it is healed at the end of the block."""

    fabric: FabricFixture
    entry: Entry

    def heal(self) -> None:
        """Heal the fault, unless that was done before."""
        if any(each.number == self.entry.number for each in fault_engine.running(self.fabric.live)):
            fault_engine.heal(replace(self.fabric.live), [self.entry.number], _wait)
            if self.fabric.recorder is not None:
                self.fabric.recorder.record(
                    RecordKind.TRUTH, did="heal", kind=self.entry.kind, place=self.entry.place
                )

    def __enter__(self) -> Injected:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


@dataclass
class Faults:
    """Injects faults into a fabric. Remaining ones are healed at the end of the test."""

    fabric: FabricFixture
    _injected: list[Injected] = field(default_factory=list)

    def __call__(self, kind: str, place: str, **parameters: Any) -> Injected:
        """``rocelab fault inject``: ``fault("link-loss", "leaf1--spine1", probability="1%")``."""
        written = {name.replace("_", "-"): value for name, value in parameters.items()}
        entry = fault_engine.inject(
            replace(self.fabric.live), FaultRequest(kind, place, written), holder=Holder.current(), waiting=_wait
        )
        if self.fabric.recorder is not None:
            told = {name: str(value) for name, value in written.items()}
            self.fabric.recorder.record(RecordKind.TRUTH, did="inject", kind=kind, place=place, parameters=told)
        self._injected.append(Injected(self.fabric, entry))
        return self._injected[-1]

    def heal(self) -> None:
        """Heal all remaining faults, in reverse order."""
        with contextlib.ExitStack() as healing:
            for injected in self._injected:
                healing.callback(injected.heal)
        self._injected.clear()


@dataclass
class Recordings:
    """Records a fabric while a block runs."""

    fabric: FabricFixture
    made: list[Path] = field(default_factory=list)

    @contextlib.contextmanager
    def __call__(self, *captures: str, hz: float = DEFAULT_HZ, state: bool = False) -> Iterator[Run]:
        """Record like ``rocelab record``: all counters ``hz`` times a second, events, and packets of links.

        With ``state``, the routes and configuration of all nodes before and after are recorded, too.
        """
        folder = self.fabric.folder / f"recording-{len(self.made) + 1}"
        self.made.append(folder)
        with Recorder.begin(folder, replace(self.fabric.live), hz=hz, captures=captures, state=state) as recorder:
            self.fabric.recorder = recorder
            try:
                yield Run(folder, recorder)
            finally:
                self.fabric.recorder = None


@dataclass
class Run:
    """A recording in progress, which can be read after the block."""

    folder: Path
    recorder: Recorder

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record everything in the block as a phase, for ``.during(name)``."""
        self.recorder.phase(name)
        yield
        self.recorder.phase("")

    def read(self) -> Recording:
        """Return the recording; an example of a counter is ``.port("leaf1:swp1").drops().delta()``."""
        return Recording.open(self.folder)


def _wait(_holder: str) -> None:
    """Wait silently while another command holds the fabric."""
