"""The stage: a scenario drives a running fabric, phases, traffic and faults through it. All of it is recorded."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from lab.backends.live_qos import change_qos
from lab.errors import OperationFailed
from lab.faults import fault_engine
from lab.faults.fault_request import FaultRequest, find_kind
from lab.faults.ledger import Holder
from lab.model.hosts import parse_pair
from lab.model.qos.port_change import QosRequest
from lab.model.values.link_selection import choose_ports
from lab.rdma.continuous_transfers import flowing
from lab.rdma.measure import DEFAULT_TIMEOUT, BandwidthTest, Verb
from lab.rdma.nic_choice import find_pair
from lab.scenario import port_restore as kept
from lab.telemetry.store.recording_folder import RecordKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.faults.ledger import Entry
    from lab.kernel.process.process import Completed
    from lab.model.qos.port import NodeQos

_POLL: Final = 0.02


class Notebook(Protocol):
    """The interface of a ``Recorder`` that a stage uses."""

    def phase(self, name: str) -> int:
        """Begin a phase; "" ends it."""

    def note(self, text: str, **data: Any) -> int:
        """Record a note with data."""

    def command(self, node: str, argv: Sequence[str], result: Completed, *, began: int) -> None:
        """Record a command that was run in a node."""

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:
        """Add a record of a time, by default now."""


@dataclass
class Stage:
    """A fabric and the recorder of a run. All changes are reverted when the scenario ends."""

    fabric: Fabric
    recorder: Notebook
    seed: int
    tell: Callable[[str], None]
    """Called with a line for each phase, fault and change."""
    _before: Mapping[str, NodeQos] = field(init=False)
    """The ports' configuration before the scenario, without its own faults."""

    def __post_init__(self) -> None:
        self._before = replace(self.fabric).qos

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record everything in the block as the phase ``name``. Checks read counters by phase."""
        self.tell(name)
        self.recorder.phase(name)
        yield
        self.recorder.phase("")

    @contextlib.contextmanager
    def writing(  # noqa: PLR0913 - the options of a transfer
        self,
        *pairs: str,
        qps: int = 1,
        size: int = 65536,
        verb: Verb = Verb.WRITE,
        tclass: int | None = None,
        pace: int | None = None,
        timeout: int = DEFAULT_TIMEOUT,
    ) -> Iterator[None]:
        """Run RDMA transfers between pairs of hosts like ``h1:h4`` for the block.

        Messages have ``size`` bytes, over ``qps`` QPs. Each pair sends as fast as it can, or starts ``pace`` messages
        per second. A QP retransmits after 4.096 us x 2^``timeout`` without an ACK.
        """
        told = {} if tclass is None else {"tclass": tclass}
        test = BandwidthTest(verb=verb, size=size, qps=qps, duration=1, pace=pace, timeout=timeout, **told)
        self.recorder.note("traffic", pairs=list(pairs), qps=qps, size=size, verb=verb.value, tclass=test.tclass)
        with flowing([find_pair(self.fabric, *parse_pair(pair)) for pair in pairs], test) as flows:
            try:
                yield
            finally:
                for flow in flows:
                    if not flow.running:
                        self.recorder.note("gave up", pair=str(flow.pair), said=flow.last_words)

    def hold(self, seconds: float) -> None:
        """Wait for some seconds."""
        self.recorder.note("hold", seconds=seconds)
        time.sleep(seconds)

    @contextlib.contextmanager
    def holding(self, name: str, seconds: float) -> Iterator[None]:
        """Record the phase ``name``, which lasts some seconds and then the block."""
        with self.phase(name):
            self.hold(seconds)
            yield

    def measure(self, name: str, seconds: float) -> None:
        """Record the phase ``name`` of some seconds."""
        with self.holding(name, seconds):
            pass

    def linger(self, again: Callable[[], None] | None = None) -> None:
        """Mark the point where a challenge waits for the user's fix and repeats ``again``; a run continues."""

    def until(self, done: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        """Wait for ``done``. Raises OperationFailed, which names ``what``, after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise OperationFailed(f"{what}: not within {timeout:g} s", "run it again with --keep and look")
            time.sleep(_POLL)

    def inject(self, kind: str, place: str, **parameters: Any) -> Entry:
        """Inject a fault, which is healed at the latest when the scenario ends. The recording's truth contains it.

        A random fault uses the seed of the run, unless another one is given.
        """
        drawn = {"seed": self.seed} if "seed" in find_kind(kind).parameters.model_fields else {}
        given = {**drawn, **{name.replace("_", "-"): value for name, value in parameters.items()}}
        self.recorder.record(
            RecordKind.TRUTH,
            did="inject",
            kind=kind,
            place=place,
            parameters={name: str(value) for name, value in given.items()},
        )
        wish = FaultRequest(kind, place, given)
        self.tell(f"  {wish}")
        return fault_engine.inject(replace(self.fabric), wish, holder=Holder.current(), waiting=self._wait)

    def heal(self, *entries: Entry) -> None:
        """Heal faults, one after the other."""
        for entry in entries:
            fault_engine.heal(replace(self.fabric), [entry.number], self._wait)
            self.recorder.record(RecordKind.TRUTH, did="heal", kind=entry.kind, place=entry.place)
            self.tell(f"  healed {entry}")

    def set(self, ports: str, *settings: str) -> None:
        """Change settings like ``rocelab qos set``, and record that command."""
        began = time.monotonic_ns()
        fabric = replace(self.fabric)
        kept.keep(fabric, self._before, self._wait)
        change_qos(fabric, choose_ports(fabric.topology, ports.split(",")), QosRequest(settings), self._wait)
        self.recorder.note("command", argv=["rocelab", "qos", "set", ports, *settings], began=began)
        self.tell(f"  rocelab qos set {ports} {' '.join(settings)}")

    def run(self, node: str, *argv: str, timeout: float = 60.0) -> Completed:
        """Run a program in a node and record its output. The caller checks the exit code."""
        began = time.monotonic_ns()
        done = self.fabric.namespace(node).run(argv, timeout=timeout, check=False)
        self.recorder.command(node, argv, done, began=began)
        return done

    def _wait(self, holder: str) -> None:
        """Report which process holds the fabric's lock."""
        self.tell(f"  waiting for {holder}")

    def restore(self) -> None:
        """Revert the scenario's remaining faults and settings."""
        fabric = replace(self.fabric)
        held = [entry.number for entry in fault_engine.running(fabric) if entry.holder == Holder.current()]
        if held:
            fault_engine.heal(fabric, held, self._wait)
        kept.restore(fabric, self._wait)
