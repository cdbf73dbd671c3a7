"""The base class of faults that change the addresses of an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from typing_extensions import override

from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.kernel.netlink import ip_state

if TYPE_CHECKING:
    from lab.faults.fault import Before

A = TypeVar("A", bound=Parameters)


class AddressFault(Fault[A], Generic[A]):
    """A kind that changes addresses, or loses routes with them. Healing restores all of the interface's."""

    form: ClassVar = Form.NIC

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the addresses of {self.end}"})

    @override
    def look(self) -> Before:
        return {"kept": ip_state.keep(self.namespace, self.end.interface)}

    @override
    def heal(self, before: Before) -> None:
        ip_state.put_back(self.namespace, self.end.interface, before["kept"])
