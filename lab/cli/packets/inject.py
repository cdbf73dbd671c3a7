"""The sending half of ``rocelab craft``: interface, missing addresses, rate, and report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.errors import UsageError
from lab.kernel.netlink import neighbours
from lab.kernel.packets.inject import Injector
from lab.kernel.packets.pace import Pace
from lab.model.hosts import addresses_of
from lab.model.values.link_selection import choose_links
from lab.units import counted, format_rate, format_time
from lab.wire.craft.packet_craft import frames
from lab.wire.craft.packet_spec import PacketKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.kernel.packets.inject import SendResult
    from lab.kernel.process.netns import Namespace
    from lab.wire.craft.packet_spec import PacketSpec

_LINK_LOCAL: Final = {PacketKind.PFC, PacketKind.PAUSE}


@dataclass(frozen=True, slots=True)
class InjectReport:
    """The result of sending ``wanted`` packets from the interface ``name``."""

    sent: SendResult
    wanted: int
    name: str

    def __str__(self) -> str:
        sent = self.sent
        of_all = (
            f"{sent.packets} of {self.wanted} packets"
            if sent.packets != self.wanted
            else counted(self.wanted, "packet")
        )
        rate = f"{sent.packets_per_second:.0f} packets/s, {format_rate(sent.bits_per_second)}"
        refused = f"; its queue had no room for {sent.refused}" if sent.refused else ""
        return f"{of_all} sent from {self.name} in {format_time(sent.seconds)}: {rate}{refused}"

    @property
    def facts(self) -> dict[str, Any]:
        """The result for JSON."""
        sent = self.sent
        rates = {"packets_per_second": sent.packets_per_second, "bits_per_second": sent.bits_per_second}
        return {"interface": self.name, "wanted": self.wanted} | asdict(sent) | rates


class Sender:
    """Sends from one interface of a running fabric; UsageError if it does not exist."""

    def __init__(self, end: str, fabric_name: str | None, pace: str | None) -> None:
        self.name = end
        self._pace = None if pace is None else _pace(pace)
        fabric = open_fabric(fabric_name)
        if ":" not in end or "--" in end:
            raise UsageError(f"{end!r} names no interface", "write h1:eth1")
        ((where, _),) = choose_links(fabric.topology, [end])
        self._plan = fabric.plan
        self._namespace: Namespace = fabric.namespace(where.node)
        self._interface = where.interface

    def address(self, name: str) -> str:
        """Return the address of a node: a switch's loopback, a host's first NIC; other text is returned unchanged."""
        if name not in self._plan:
            return name
        return str(self._plan[name].loopback4 or addresses_of(self._plan, name)[0])

    def complete(self, specs: Iterable[PacketSpec]) -> list[PacketSpec]:
        """Fill in missing addresses: those of the interface, and the MAC address of the next hop."""
        return [self._completed(spec) for spec in specs]

    def _completed(self, spec: PacketSpec) -> PacketSpec:
        prefix = "vtep_" if spec.vni is not None else ""
        src, dst, src_mac, dst_mac = (prefix + key for key in ("src", "dst", "src_mac", "dst_mac"))
        written = spec.model_fields_set
        found: dict[str, str] = {}
        if src_mac not in written:
            found[src_mac] = neighbours.mac_address(self._namespace, self._interface)
        if spec.kind not in _LINK_LOCAL and not {src, dst_mac} <= written:
            if dst not in written:
                option = dst.replace("_", "-")
                raise UsageError(f"the {spec.kind.value} has no destination", f"add --{option} with an address")
            found |= self._onward(src, dst_mac, getattr(spec, dst), written)
        return spec.model_copy(update=found)

    def _onward(self, src: str, dst_mac: str, destination: str, written: set[str]) -> dict[str, str]:
        route = neighbours.route(self._namespace, self._interface, destination)
        found = {}
        if src not in written and route.source:
            found[src] = route.source
        if dst_mac not in written:
            found[dst_mac] = neighbours.resolve(self._namespace, self._interface, route.next_hop)
        return found

    def send(self, specs: Sequence[PacketSpec]) -> InjectReport:
        """Send all packets of all descriptions in order; a signal ends it early."""
        every = chain.from_iterable(frames(spec) for spec in specs)
        with Injector(self._namespace, self._interface) as injector, ends_on_signals(injector.interrupt):
            sent = injector.send(every, self._pace)
        return InjectReport(sent, sum(spec.count for spec in specs), self.name)


def _pace(text: str) -> Pace:
    try:
        return Pace.parse(text)
    except ValueError as error:
        raise UsageError(
            f"--pace {text} cannot be read", "write it like 1000 (packets per second) or 10Mbit"
        ) from error
