"""Faults of cables: additional delay, jitter and reordering.

The emulated port implements them on lossless ports. Plain links support only delay, by netem.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, TypeVar

from pydantic import BeforeValidator
from typing_extensions import override

from lab.backends.live_qos import require_ports
from lab.dataplane import disturb
from lab.dataplane.port_maps import open_maps
from lab.errors import EnvironmentLacks
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.values import priorities, share_of, time_of
from lab.kernel.bpf import probe
from lab.kernel.netlink import links, rtnl
from lab.model.disturbance import FARTHEST, LONGEST, Disturbance, dump, restore
from lab.wire.craft.packet_values import between

if TYPE_CHECKING:
    from lab.faults.fault import Before
    from lab.model.topology import Endpoint, Link

P = TypeVar("P", bound=Parameters)


class Disturbed(Fault[P], Generic[P]):
    """A kind that disturbs what each end of a link sends."""

    form: ClassVar = Form.LINK

    @abstractmethod
    def disturbance(self) -> Disturbance:
        """Return what happens to packets on the cable."""

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(f"the cable behind {end}" for end in self.place.ends)

    @override
    def look(self) -> Before:
        require_ports(self.fabric)
        return {"disturbance": dump(self.disturbance())}

    @override
    def inject(self, before: Before) -> None:
        maps = open_maps(self.fabric.name, writable=True)
        for end in self.place.ends:
            disturb.disturb(maps, self._port(end), restore(before["disturbance"]))

    @override
    def heal(self, before: Before) -> None:
        maps = open_maps(self.fabric.name, writable=True)
        for end in self.place.ends:
            disturb.calm(maps, self._port(end))

    def truth(self) -> dict[str, disturb.DisturbanceCounts]:
        """Return the packets affected, by sending end. No device counter contains them."""
        maps = open_maps(self.fabric.name)
        return {str(end): disturb.read(maps, self._port(end)) for end in self.place.ends}

    def _port(self, end: Endpoint) -> int:
        return self.fabric.numbering.nodes[end.node].port(end.interface)


class DelayParameters(Parameters):
    """The parameters of link-delay."""

    delay: Annotated[float, time_of(1e-9, LONGEST)]
    """Additional delay in each direction, also of PFC frames: 5us is a kilometre of fibre."""


class LinkDelay(Disturbed[DelayParameters]):
    """A cable is longer than its headroom allows for: pauses arrive late."""

    name: ClassVar = "link-delay"
    parameters: ClassVar = DelayParameters

    @override
    def disturbance(self) -> Disturbance:
        return Disturbance(delay=self.p.delay)

    @override
    def look(self) -> Before:
        if self._lossless:
            return super().look()
        if not probe.has_qdisc("netem"):
            raise EnvironmentLacks(
                f"link-delay of {self.place}: it needs the kernel's sch_netem", "modprobe sch_netem, or use --vm"
            )
        return {}

    @override
    def inject(self, before: Before) -> None:
        if self._lossless:
            super().inject(before)
        else:
            self._change(self.p.delay + self._link.delay)

    @override
    def heal(self, before: Before) -> None:
        if self._lossless:
            super().heal(before)
        else:
            self._change(self._link.delay)

    @override
    def truth(self) -> dict[str, disturb.DisturbanceCounts]:
        return super().truth() if self._lossless else {}

    @property
    def _lossless(self) -> bool:
        return self.fabric.topology.qos is not None

    @property
    def _link(self) -> Link:
        return next(link for link in self.fabric.topology.links if self.place.ends[0] in link.ends)

    def _change(self, delay: float) -> None:
        """Set the delay of both ends by netem. Without a delay netem is removed."""
        link = self._link
        for end in self.place.ends:
            index, batch = self.fabric.numbering.index(end.node, end.interface), rtnl.NetlinkBatch()
            links.replace_delay(batch, index, delay=delay, rate=link.rate, mtu=link.mtu)
            if not delay:
                links.remove_delay(batch, index, rate=link.rate, mtu=link.mtu)
            self.fabric.namespace(end.node).inside(batch.commit)


class DrawnParameters(Parameters):
    """The affected packets, and the seed of the random choice."""

    priority: Annotated[tuple[Annotated[int, between(0, 7)], ...], BeforeValidator(priorities)] | None = None
    """Only packets of these priorities."""
    seed: Annotated[int, between(0, 2**63 - 1)] = 1
    """The same seed affects the same packets in the same way."""

    @property
    def meant(self) -> frozenset[int] | None:
        """The affected priorities; None for all."""
        return None if self.priority is None else frozenset(self.priority)


class JitterParameters(DrawnParameters):
    """The parameters of link-jitter."""

    jitter: Annotated[float, time_of(1e-9, LONGEST)]
    """Maximum additional delay of a packet. Packets stay in order."""


class LinkJitter(Disturbed[JitterParameters]):
    """Packets are delayed at random, in order: gaps and bursts."""

    name: ClassVar = "link-jitter"
    parameters: ClassVar = JitterParameters

    @override
    def disturbance(self) -> Disturbance:
        return Disturbance(jitter=self.p.jitter, priorities=self.p.meant, seed=self.p.seed)


class ReorderParameters(DrawnParameters):
    """The parameters of link-reorder."""

    probability: Annotated[float, share_of(2.4e-10)]
    """The share of packets that are overtaken."""
    distance: Annotated[int, between(1, FARTHEST)] = 1
    """By how many packets each is overtaken."""


class LinkReorder(Disturbed[ReorderParameters]):
    """Packets overtake each other on a link, as with packet spraying over a bundle."""

    name: ClassVar = "link-reorder"
    parameters: ClassVar = ReorderParameters

    @override
    def disturbance(self) -> Disturbance:
        return Disturbance(
            reorder=self.p.probability, distance=self.p.distance, priorities=self.p.meant, seed=self.p.seed
        )
