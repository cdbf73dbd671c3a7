"""Faults of switches and hosts alike: a packet filter, and CPU starvation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from typing_extensions import override

from lab.errors import EnvironmentLacks, UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.values import share_of
from lab.kernel.process import cgroup
from lab.kernel.process.process import find_tool
from lab.wire.craft.packet_values import between
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from pathlib import Path

    from lab.faults.fault import Before

_TABLE: Final = "acl"


class FilterParameters(Parameters):
    """The parameters of udp-filtered."""

    port: Annotated[int, between(1, 65535)] = ROCEV2_PORT
    """UDP destination port: 4791 is RoCEv2's."""
    dscp: Annotated[int, between(0, 63)] | None = None
    """Only packets with this DSCP: 48 is that of CNPs."""


class UdpFiltered(Fault[FilterParameters]):
    """A packet filter on a host or a switch drops RoCEv2, or one DSCP of it, while ping and TCP pass.

    It is an nftables table with drop counters: nft list ruleset.
    """

    name: ClassVar = "udp-filtered"
    form: ClassVar = Form.NODE
    parameters: ClassVar = FilterParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the filters of {self.place.node}"})

    @override
    def look(self) -> Before:
        done = self.namespace.run([_nft(), "list", "tables"], check=False)
        if done.returncode:
            raise EnvironmentLacks(f"nftables does not work here: {done.stderr.strip()}", "use --vm")
        if f"table inet {_TABLE}" in done.stdout.splitlines():
            raise UsageError(
                f"{self.place.node} has a table {_TABLE}", f"rocelab exec {self.place.node} -- nft list ruleset"
            )
        return {}

    @override
    def inject(self, before: Before) -> None:
        wanted = [""] if self.p.dscp is None else [f"{ip} dscp {self.p.dscp} " for ip in ("ip", "ip6")]
        rules = " ".join(f"{each}udp dport {self.p.port} counter drop;" for each in wanted)
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; {rules} }}\n"
            for hook in ("input", "forward", "output")
        )
        self.namespace.run([_nft(), "-f", "-"], stdin=f"table inet {_TABLE} {{\n{chains}}}\n")

    @override
    def heal(self, before: Before) -> None:
        namespace = self.namespace
        namespace.run([_nft(), "-f", "-"], stdin=f"add table inet {_TABLE}\ndelete table inet {_TABLE}\n")


def _nft() -> str:
    return find_tool("nft", "nftables")


class StarvedParameters(Parameters):
    """The parameters of cpu-starved."""

    share: Annotated[float, share_of(0.01)] = 0.05
    """The share of one CPU for all programs of the node: 1% to 100%."""


class CpuStarved(Fault[StarvedParameters]):
    """The programs of a node get a small share of a CPU: daemons miss their timers, applications their data.

    The kernel's work (forwarding, SoftRoCE) is not limited.
    """

    name: ClassVar = "cpu-starved"
    form: ClassVar = Form.NODE
    parameters: ClassVar = StarvedParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the CPU of {self.place.node}"})

    @override
    def look(self) -> Before:
        group = self._group()
        cgroup.check_cpu(group)
        if cgroup.is_limited(group):
            raise UsageError(f"{self.place.node} has a limit of its own", f"see {group}/cpu.max")
        return {}

    @override
    def inject(self, before: Before) -> None:
        cgroup.limit_cpu(self._group(), self.p.share)

    @override
    def heal(self, before: Before) -> None:
        cgroup.free_cpu(self._group())

    def _group(self) -> Path:
        """Return the node's cgroup, which is created if no program has been started in it."""
        group = self.namespace.group
        if group is None or not group.parent.is_dir():
            raise EnvironmentLacks("this machine has no cgroups for the fabric's programs", "use --vm")
        group.mkdir(exist_ok=True)
        return group.resolve()
