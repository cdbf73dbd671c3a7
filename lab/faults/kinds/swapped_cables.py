"""Swapped cables: the cables of two ports of a switch are plugged into each other's port.

The near ends of two veth pairs are exchanged. Each becomes the other interface, with its name, index, MAC, addresses
and emulated port; the far ends stay as they are. Both near ends leave their namespace first, because an index in use
cannot be assigned. They wait in the namespaces of their far ends, which last as long as the fabric. In a namespace
of their own, the kernel would delete them with the process of the fault.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from lab.backends.plumbing import altname, restore_port
from lab.dataplane import port_maps
from lab.errors import OperationFailed, UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.kernel.netlink import ip_state, links, rtnl
from lab.kernel.process import tuning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lab.faults.fault import Before
    from lab.model.topology import Endpoint

_CLAIMED: Final = (
    "the state of", "the addresses of", "the MTU of", "packets received at", "packets sent at", "the cable behind",
)  # fmt: skip
"""Settings that an interface loses when it leaves its namespace."""
_BACKEND: Final = "netns"


class CableSwapped(Fault[Parameters]):
    """The cables of two ports of a switch are plugged into each other's port.

    Name both ports: leaf1:swp3,leaf1:swp4. Each port keeps its addresses, so that hosts do not reach their gateway.
    Sessions of unnumbered BGP come up over swapped uplinks, and traffic continues.
    """

    name: ClassVar = "cable-swapped"
    form: ClassVar = Form.PORTS
    parameters: ClassVar = Parameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(f"{setting} {end}" for setting in _CLAIMED for end in self.place.ends)

    @override
    def look(self) -> Before:
        ends, topology = self.place.ends, self.fabric.topology
        if len(ends) != 2 or ends[0].node != ends[1].node or not topology.node(ends[0].node).role.is_switch:
            raise UsageError(
                f"{self.name}: {self.place} is not two ports of one switch", "write two, as leaf1:swp3,leaf1:swp4"
            )
        if self.fabric.backend.name != _BACKEND:
            raise UsageError(
                f"{self.name}: the backend {self.fabric.backend.name} keeps its cables", f"--backend {_BACKEND}"
            )
        return {end.interface: self._look_at(end) for end in ends}

    def _look_at(self, end: Endpoint) -> dict[str, Any]:
        (shown,) = ip_state.ask(self.namespace, "link", "show", "dev", end.interface)
        if "master" in shown:
            raise UsageError(
                f"{self.name}: {end} is a member of {shown['master']}", "name ports that are in no bridge or VRF"
            )
        if "LOWER_UP" not in shown["flags"]:
            raise UsageError(f"{self.name}: {end} is down", "rocelab fault ls")
        return {
            "mac": shown["address"],
            "mtu": shown["mtu"],
            "kept": ip_state.keep(self.namespace, end.interface),
            "sysctls": self.namespace.inside(partial(tuning.interface_sysctls, end.interface)),
        }

    @override
    def inject(self, before: Before) -> None:
        self._plug(before, dict(zip(self.place.ends, reversed(self.place.ends), strict=True)))

    @override
    def heal(self, before: Before) -> None:
        self._plug(before, dict(zip(self.place.ends, self.place.ends, strict=True)))

    def _plug(self, before: Before, cables: Mapping[Endpoint, Endpoint]) -> None:
        """Plug into each port the cable that the topology has at the given port. Can be repeated."""
        for cable in cables.values():
            holder, shown = self._near_end(cable)
            if holder == cable.node:
                self._move(holder, shown, self._far(cable).node, f"cable{self._index(cable)}", self._index(cable))
        for port, cable in cables.items():
            holder, shown = self._near_end(cable)
            self._move(holder, shown, port.node, port.interface, self._index(port))
        with ExitStack() as stack:
            emulated = self.fabric.topology.qos is not None
            programs = stack.enter_context(port_maps.programs(self.fabric.name)) if emulated else None
            for port in cables:
                self._configure(port, before[port.interface], programs)

    def _configure(self, port: Endpoint, before: Mapping[str, Any], programs: port_maps.Programs | None) -> None:
        values = (f"address {before['mac']}", f"mtu {before['mtu']}")
        ip_state.change(self.namespace, "", [f"link set dev {port.interface} {value}" for value in values])
        self.namespace.inside(partial(restore_port, self.fabric, port, programs))
        self.namespace.inside(partial(_set_sysctls, port.interface, before["sysctls"]))
        ip_state.put_back(self.namespace, port.interface, before["kept"])

    def _near_end(self, cable: Endpoint) -> tuple[str, Mapping[str, Any]]:
        """Return the node that holds the near end of a cable now, and what ip shows of it.

        Both ends of a veth pair have the index of the other end, which is unique in the fabric.
        """
        far = self._far(cable)
        for node in (cable.node, far.node):
            for shown in ip_state.ask(self.fabric.namespace(node), "link", "show", "type", "veth"):
                if shown.get("link_index") == self._index(far) or (node, shown.get("link")) == (
                    far.node, far.interface,
                ):  # fmt: skip
                    return node, shown
        raise OperationFailed(f"{self.name}: the cable at {cable} is gone", "rocelab down, then rocelab up")

    def _move(self, holder: str, shown: Mapping[str, Any], node: str, name: str, index: int) -> None:
        source, target = self.fabric.namespace(holder), self.fabric.namespace(node)
        names = set(shown.get("altnames", ())) & {altname(self.namespace, end.interface) for end in self.place.ends}
        ip_state.change(source, "", [f"link property del dev {shown['ifname']} altname {each}" for each in names])
        descriptor = os.open(target.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            batch = rtnl.NetlinkBatch()
            links.move(batch, shown["ifindex"], descriptor, name=name, new_index=index)
            source.inside(batch.commit)
        finally:
            os.close(descriptor)

    def _far(self, end: Endpoint) -> Endpoint:
        (link,) = (each for each in self.fabric.topology.links_of(end.node) if end in each.ends)
        return link.other(end)

    def _index(self, end: Endpoint) -> int:
        return self.fabric.numbering.index(end.node, end.interface)


def _set_sysctls(interface: str, values: Mapping[str, str]) -> None:
    """Set the sysctls of an interface that have other values: it got its node's defaults when it came back."""
    there = tuning.interface_sysctls(interface)
    tuning.write_sysctls({name: value for name, value in values.items() if there.get(name) != value})
