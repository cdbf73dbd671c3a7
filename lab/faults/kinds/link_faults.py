"""Faults of links: down, a lower rate, or a smaller MTU than its ends expect."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from lab.errors import OperationFailed, UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.kinds.addresses import AddressFault
from lab.faults.kinds.port_faults import Configured
from lab.kernel.netlink import ip_state
from lab.kernel.netlink.interfaces import interfaces
from lab.model.values.fields import Mtu, Rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.faults.fault import Before
    from lab.model.topology import Endpoint


class LinkDown(AddressFault[Parameters]):
    """An end of a link is shut down.

    The node's interface goes down, and the other end loses its carrier. A host loses the routes that use it; healing
    restores them.
    """

    name: ClassVar = "link-down"
    form: ClassVar = Form.END
    parameters: ClassVar = Parameters

    @override
    def claims(self) -> frozenset[str]:
        return super().claims() | {f"the state of {self.end}"}

    @override
    def look(self) -> Before:
        end = self.end
        if not ip_state.is_up(self.namespace, end.interface):
            raise UsageError(f"{end} is down", f"rocelab exec {end.node} -- ip link set {end.interface} up")
        return super().look()

    @override
    def inject(self, before: Before) -> None:
        end = self.end
        ip_state.change(self.namespace, "-4", [f"link set dev {end.interface} down"])

    @override
    def heal(self, before: Before) -> None:
        ip_state.change(self.namespace, "-4", [f"link set dev {self.end.interface} up"])
        super().heal(before)


class PowerLost(Fault[Parameters]):
    """All links of a switch go down at once, as when it loses power.

    Its neighbours lose their carrier. Its daemons are not killed: they lose all sessions, and start them again after
    healing.
    """

    name: ClassVar = "power-lost"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = Parameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(
            claim for end in self._ends() for claim in (f"the addresses of {end}", f"the state of {end}")
        )

    @override
    def look(self) -> Before:
        ends = self._ends()
        down = [str(end) for end in ends if not ip_state.is_up(self.namespace, end.interface)]
        if down:
            raise UsageError(f"{' and '.join(down)} of {self.place} went down before", "rocelab fault ls")
        return {end.interface: ip_state.keep(self.namespace, end.interface) for end in ends}

    @override
    def inject(self, before: Before) -> None:
        self._set("down")

    @override
    def heal(self, before: Before) -> None:
        self._set("up")
        for interface, kept in before.items():
            ip_state.put_back(self.namespace, interface, kept)

    def _ends(self) -> list[Endpoint]:
        return [link.end_at(self.place.node) for link in self.fabric.topology.links_of(self.place.node)]

    def _set(self, state: str) -> None:
        ip_state.change(self.namespace, "-4", [f"link set dev {end.interface} {state}" for end in self._ends()])


class MtuParameters(Parameters):
    """The parameters of link-mtu."""

    mtu: Mtu
    """The MTU in bytes of an IP packet: 1280 to 9216."""


class LinkMtu(Fault[MtuParameters]):
    """One link has a smaller MTU than all others: small packets pass, large ones are lost.

    At one end (leaf1:swp1), the other end still sends larger packets. At both ends, a switch reports it by ICMP, and
    hosts cache that path MTU for ten minutes. Healing flushes this cache.
    """

    name: ClassVar = "link-mtu"
    form: ClassVar = Form.LINK
    parameters: ClassVar = MtuParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(f"the MTU of {end}" for end in self.place.ends)

    @override
    def look(self) -> Before:
        found = {str(end): interfaces(self.fabric.namespace(end.node))[end.interface].mtu for end in self.place.ends}
        if set(found.values()) == {self.p.mtu}:
            raise UsageError(f"link-mtu: {self.place} has an MTU of {self.p.mtu} already", "choose another")
        return found

    @override
    def inject(self, before: Before) -> None:
        self._set(dict.fromkeys(self.place.ends, self.p.mtu))

    @override
    def heal(self, before: Before) -> None:
        self._set({end: before[str(end)] for end in self.place.ends})
        for host in self.fabric.topology.hosts:
            with contextlib.suppress(OperationFailed):  # a removed host has no cache
                ip_state.forget_cache(self.fabric.namespace(host.name))

    def _set(self, wanted: Mapping[Endpoint, int]) -> None:
        for end, mtu in wanted.items():
            ip_state.change(self.fabric.namespace(end.node), "-4", [f"link set dev {end.interface} mtu {mtu}"])


class RateParameters(Parameters):
    """The parameters of link-rate."""

    rate: Rate
    """The link's rate in bit/s: 25Mbit where the others have 100Mbit."""


class LinkRate(Configured[RateParameters]):
    """A link came up at a lower rate than its siblings.

    Lossless ports only. Thresholds stay those of the full rate.
    """

    name: ClassVar = "link-rate"
    form: ClassVar = Form.LINK
    parameters: ClassVar = RateParameters

    @override
    def settings(self) -> Sequence[str]:
        return (f"rate={self.p.rate}",)
