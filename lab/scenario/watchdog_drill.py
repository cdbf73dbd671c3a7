"""Two storms on a fabric with PFC watchdogs: one at a leaf with the right settings, one at a leaf that differs.

The phases are ``baseline`` and ``contained`` at the first leaf, then ``before``, ``observe``, ``fix`` and ``verify``
at the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.traffic.workload import show_pauses, show_queue

if TYPE_CHECKING:
    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import Recording

_DETECTED: Final = 0.5
"""Seconds until a storm is detected and the packets that it delayed are sent."""


@dataclass(frozen=True)
class StormyLeaf:
    """A leaf with a storming NIC, and a pair of hosts that does not use it."""

    pairs: tuple[str, str]
    """The pair that writes to the storming host, and the bystanders, which share the leaf's uplinks."""
    hosts: tuple[str, ...]
    """The leaf's ports to hosts."""
    stuck: str
    """The leaf's port to the storming NIC."""
    bystander: str
    """The leaf's port to the receiver of the bystanders."""
    spines: tuple[str, ...]
    """The spines' ports to the leaf."""

    @property
    def storming(self) -> str:
        """The host whose NIC storms."""
        return self.pairs[0].partition(":")[2]

    def rate(self, rec: Recording, phase: str) -> float:
        """Return what the bystanders' receiver gets in a phase, in Mb/s."""
        return mbits(rec, self.bystander, phase)

    def paused(self, rec: Recording, phase: str) -> float:
        """Return the share of a phase in which the NIC paused the leaf."""
        return paused_share(rec, phase, self.stuck)

    def spread(self, rec: Recording, phase: str) -> float:
        """Return the share of a phase in which the leaf paused a spine, the larger one."""
        return paused_share(rec, phase, *self.spines)

    def count(self, rec: Recording, counter: str, first: str, last: str) -> int:
        """Return the growth of a counter of the port to the NIC, from the start of a phase to the end of another."""
        return rec.port(self.stuck).counter(counter).between(rec.phase(first).start, rec.phase(last).end).delta()


def two_storms(  # noqa: PLR0913 - a drill has two leaves and four times
    stage: Stage,
    right: StormyLeaf,
    wrong: StormyLeaf,
    drift: str,
    *,
    hold: float,
    observed: float,
    settling: float,
    **storm: Any,
) -> None:
    """Enable the watchdog on the ports to hosts of both leaves, then run a storm at each of them.

    ``drift`` is the setting that differs at the leaf ``wrong``. Its storm continues after the setting is corrected.
    """
    stage.set(",".join((*right.hosts, *wrong.hosts)), "pfc.watchdog.enabled=true")
    drifted = stage.inject("port-config", ",".join(wrong.hosts), set=drift)
    with stage.writing(*right.pairs, qps=8):
        stage.measure("baseline", hold)
        pauses = stage.inject("pause-storm", right.storming, **storm)
        stage.hold(_DETECTED)
        stage.measure("contained", hold)
        stage.heal(pauses)
    with stage.writing(*wrong.pairs, qps=8):
        stage.measure("before", hold)
        stage.inject("pause-storm", wrong.storming, **storm)
        stage.hold(_DETECTED)
        stage.measure("observe", observed)
        show_pauses(stage, wrong.stuck)
        show_queue(stage, wrong.stuck)
        stage.linger()
        with stage.phase("fix"):
            stage.heal(drifted)
            stage.hold(settling)
        stage.measure("verify", hold)
