"""What a test drives: a running fabric with traffic, counters, captures, faults and recordings."""

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
    """A fabric that runs for a test. What the test captures and records goes into ``folder``."""

    live: backend.Fabric
    folder: Path
    recorder: Recorder | None = None
    """The one that records right now: it is told of commands and faults."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __repr__(self) -> str:
        return f"<fabric {self.name}>"

    @property
    def name(self) -> str:
        """What it is called on this machine: ``rocelab --fabric``."""
        return self.live.name

    @property
    def topology(self) -> Topology:
        """Its nodes and links."""
        return self.live.topology

    def run(self, node: str, *argv: str, timeout: float = 60.0, check: bool = True) -> Completed:
        """Run a program in a node and return what it printed, and its exit code.

        CommandFailed when that is not 0, unless ``check`` is off; OperationFailed after ``timeout`` seconds.
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
        """How many of so many pings a node, or any address, answers; 20 ms apart, the last waited for a second.

        UsageError when the target is no node.
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
        """Have pairs of hosts like ``h1:h4`` transfer by RDMA meanwhile; all send when the block begins.

        OperationFailed at its end, with perftest's words, for a pair that gave up.
        """
        told = {} if tclass is None else {"tclass": tclass}
        test = BandwidthTest(verb=verb, size=size, qps=qps, duration=1, **told)
        with flowing([find_pair(self.live, *parse_pair(pair)) for pair in pairs], test) as flows:
            yield
            for flow in flows:
                if not flow.running:
                    raise OperationFailed(f"{flow.pair} gave up: {flow.last_words}")

    def goodput(self, *pairs: str, duration: int = 2, qps: int = 1, size: int = 65536) -> dict[str, int]:
        """Payload of each pair in bit/s, all of them at once, over so many seconds; by perftest.

        A pair that completes no message in that time, for loss or because nobody answers, has 0.
        """
        test = BandwidthTest(size=size, qps=qps, duration=duration)
        found = [find_pair(self.live, *parse_pair(pair)) for pair in pairs]
        results = perftest.measure_bandwidth(found, test, patience=Patience(silence=True))
        return {pair: result.goodput_bps for pair, result in zip(pairs, results, strict=True)}

    def counting(self) -> AbstractContextManager[BlockCounters]:
        """What the ports count meanwhile."""
        return counting(replace(self.live))

    def capturing(self, *links: str, keep: str = "") -> AbstractContextManager[Packets]:
        """The packets of links meanwhile, named as for ``rocelab capture``; ``keep`` filters what is kept."""
        return capturing(self.live, self.folder / f"capture-{next(self._numbers)}.pcapng", links, keep)

    def hold(self, seconds: float) -> None:
        """Let time pass: traffic, or a fault, has to last for something to be seen of it."""
        time.sleep(seconds)

    def until(self, done: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        """Wait for ``done``; OperationFailed, naming ``what``, after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise OperationFailed(f"{what}: not within {timeout:g} s")
            time.sleep(_POLL)


@dataclass
class Injected:
    """A fault that was injected; as a context manager it is healed at the end of the block."""

    fabric: FabricFixture
    entry: Entry

    def heal(self) -> None:
        """Put back what was there before; fine when that has been done."""
        if any(each.number == self.entry.number for each in fault_engine.running(self.fabric.live)):
            fault_engine.heal(replace(self.fabric.live), [self.entry.number], _wait)
            if self.fabric.recorder is not None:
                self.fabric.recorder.truth(did="heal", kind=self.entry.kind, place=self.entry.place)

    def __enter__(self) -> Injected:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


@dataclass
class Faults:
    """Breaks a fabric; whatever is not healed at the end of the test is healed then."""

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
            self.fabric.recorder.truth(did="inject", kind=kind, place=place, parameters=told)
        self._injected.append(Injected(self.fabric, entry))
        return self._injected[-1]

    def heal(self) -> None:
        """Heal all that is left, the last first."""
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
        """``rocelab record``: all counters ``hz`` times a second, events, and the packets of links.

        With ``state`` routes and configuration of all nodes before and after.
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
    """A recording that is being made, and behind the block one to read."""

    folder: Path
    recorder: Recorder

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens meanwhile can be asked for by this name: ``.during(name)``."""
        self.recorder.phase(name)
        yield
        self.recorder.phase("")

    def read(self) -> Recording:
        """The recording; a counter is ``.port("leaf1:swp1").drops().delta()``."""
        return Recording.open(self.folder)


def _wait(_holder: str) -> None:
    """Whoever looks at the fabric meanwhile is waited for."""
