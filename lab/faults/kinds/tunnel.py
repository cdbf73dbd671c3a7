"""Leaves whose tunnels are set up otherwise than their siblings'."""

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
    """What outer headers have instead."""

    dscp: Annotated[int, between(0, 63)] = 0
    """Of all of the leaf's tunnels, whatever is inside."""


class TunnelDscp(Fault[TunnelDscpParameters]):
    """A leaf's tunnels do not inherit: outer headers have one DSCP, whatever is inside.

    What the leaf itself classified keeps its class there; behind it, switches see the outer header alone.
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
        """The number is in hexadecimal (ip-link(8)); 1 is that of the packet inside."""
        ip_state.change(
            self.namespace, "-4", [f"link set dev {name} type vxlan tos {tos:x}" for name, tos in wanted.items()]
        )


def _tos(link: Mapping[str, Any]) -> int:
    return int(str(link["linkinfo"]["info_data"].get("tos", 0)), 0)
