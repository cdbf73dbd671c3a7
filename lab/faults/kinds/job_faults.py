"""The fault of a host whose ranks compute slowly, while its NIC and its links have no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from typing_extensions import override

from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.values import share_of

if TYPE_CHECKING:
    from lab.faults.fault import Before


class ComputeParameters(Parameters):
    """The parameters of slow-compute."""

    speed: Annotated[float, share_of(0.01)] = 0.5
    """The share of its speed at which the host computes: 1% to 100%."""


class SlowCompute(Fault[ComputeParameters]):
    """A host computes slowly: its accelerators are hot, limited or degraded, and a training job waits for its rank.

    The computation of a rank is a time, not a program. So the fault lengthens that time in training jobs that start
    while it is active, and changes nothing else.
    """

    name: ClassVar = "slow-compute"
    form: ClassVar = Form.HOST
    parameters: ClassVar = ComputeParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the computation of {self.place.node}"})

    @override
    def look(self) -> Before:
        return {}

    @override
    def inject(self, before: Before) -> None:
        """Do nothing: jobs read the fault from the ledger."""

    @override
    def heal(self, before: Before) -> None:
        """Do nothing: a healed fault is no longer in the ledger."""
