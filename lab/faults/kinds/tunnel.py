"""Faults of tunnels: a leaf whose outer headers have a different DSCP than its siblings'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from typing_extensions import override

from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.kernel.netlink import ip_state
from lab.wire.craft.packet_values import between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.faults.fault import Before

_ECN_BITS: Final = 2


class TunnelDscpParameters(Parameters):
    """The parameters of tunnel-dscp."""

    dscp: Annotated[int, between(0, 63)] = 0
    """The outer DSCP of all tunnels of the leaf."""


class TunnelDscp(Fault[TunnelDscpParameters]):
    """A leaf's tunnels do not inherit the DSCP: all outer headers have the same one.

    Packets that the leaf itself classified keep their class there. Later switches see only the outer header.
    """

    name: ClassVar = "tunnel-dscp"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = TunnelDscpParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the outer DSCP of {self.place.node}"})

    @override
    def look(self) -> Before:
        found = {
            link["ifname"]: _tos(link) for link in ip_state.ask(self.namespace, "-d", "link", "show", "type", "vxlan")
        }
        if not found:
            raise UsageError(f"{self.place.node} has no tunnels", "name a leaf with networks: rocelab docs overlay")
        if set(found.values()) == {self._wanted}:
            raise UsageError(f"{self.name}: {self.place} has DSCP {self.p.dscp} already", "choose another")
        return found

    @override
    def inject(self, before: Before) -> None:
        self._set(dict.fromkeys(before, self._wanted))

    @override
    def heal(self, before: Before) -> None:
        self._set(before)

    @property
    def _wanted(self) -> int:
        return self.p.dscp << _ECN_BITS

    def _set(self, wanted: Mapping[str, Any]) -> None:
        """Set the outer TOS of tunnels, in hexadecimal (ip-link(8)); 1 inherits that of the inner packet."""
        ip_state.change(
            self.namespace, "-4", [f"link set dev {name} type vxlan tos {tos:x}" for name, tos in wanted.items()]
        )


def _tos(link: Mapping[str, Any]) -> int:
    return int(str(link["linkinfo"]["info_data"].get("tos", 0)), 0)
