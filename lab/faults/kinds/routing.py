"""Switches whose routing is wrong: daemons that are gone, lines that differ, hashes that polarise."""

from __future__ import annotations

import signal
from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar

from pydantic import field_validator
from typing_extensions import override

from lab.errors import EnvironmentLacks, UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.kernel.process import tuning
from lab.model.sysctls import HASH_SEED
from lab.model.topology import HashPolicy, Underlay
from lab.routing import running
from lab.wire.craft.packet_values import between, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before
    from lab.routing.daemons import Router


class Daemon(Enum):
    """A daemon of FRR."""

    ZEBRA = "zebra"
    BGPD = "bgpd"
    BFDD = "bfdd"
    OSPFD = "ospfd"
    OSPF6D = "ospf6d"
    ISISD = "isisd"


class DaemonParameters(Parameters):
    """Which."""

    daemon: Annotated[Daemon, named(Daemon)] = Daemon.BGPD
    """zebra, bfdd, and bgpd, ospfd, ospf6d or isisd: those that the fabric runs."""


def _alive(router: Router, daemon: Daemon) -> Router:
    if not router.lives(daemon.value):
        raise UsageError(f"{daemon.value} of {router.name} does not run", "rocelab status")
    return router


class OfDaemon(Fault[DaemonParameters]):
    """A kind that befalls a daemon of a switch, and with it what only the daemon can be told."""

    form: ClassVar = Form.SWITCH
    parameters: ClassVar = DaemonParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"{self.p.daemon.value} of {self.place.node}", f"FRR's configuration of {self.place.node}"})


class DaemonStopped(OfDaemon):
    """A routing daemon stands still: it keeps its sessions' sockets open and answers nobody."""

    name: ClassVar = "daemon-stopped"

    @override
    def look(self) -> Before:
        _alive(self.fabric.router(self.place.node), self.p.daemon)
        return {}

    @override
    def inject(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.p.daemon.value, signal.SIGSTOP)

    @override
    def heal(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.p.daemon.value, signal.SIGCONT)


class DaemonKilled(OfDaemon):
    """A routing daemon has crashed and is not started again."""

    name: ClassVar = "daemon-killed"

    @override
    def look(self) -> Before:
        return _configuration(_alive(self.fabric.router(self.place.node), self.p.daemon))

    @override
    def inject(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.p.daemon.value, signal.SIGKILL)

    @override
    def heal(self, before: Before) -> None:
        router = self.fabric.router(self.place.node)
        router.start_again(self.p.daemon.value)
        running.restore(router, _lines(before))


def _configuration(router: Router) -> Before:
    """The running configuration, as JSON has it."""
    return {"configuration": [list(line) for line in running.running(router)]}


def _lines(before: Before) -> list[running.Line]:
    return [tuple(line) for line in before["configuration"]]


F = TypeVar("F", bound=Parameters)


class Reconfigured(Fault[F], Generic[F]):
    """A kind that is lines typed at a switch; healing finds the way back from whatever came of them."""

    form: ClassVar = Form.SWITCH

    @abstractmethod
    def typed(self) -> Sequence[running.Line]:
        """The lines, each behind its contexts."""

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"FRR's configuration of {self.place.node}"})

    @override
    def look(self) -> Before:
        return _configuration(_alive(self.fabric.router(self.place.node), Daemon.ZEBRA))

    @override
    def inject(self, before: Before) -> None:
        router = self.fabric.router(self.place.node)
        running.apply(router, self.typed())
        if running.running(router) == _lines(before):
            raise UsageError(f"{self.name} changes nothing at {self.place.node}", f"rocelab vtysh {self.place.node}")

    @override
    def heal(self, before: Before) -> None:
        running.restore(self.fabric.router(self.place.node), _lines(before))


class LineParameters(Parameters):
    """What is typed."""

    lines: tuple[str, ...]
    """Lines for FRR behind `configure terminal`, with semicolons between: "router bgp; no neighbor swp1 bfd"."""

    @field_validator("lines", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        lines = value.replace("\n", ";").split(";") if isinstance(value, str) else value
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            raise ValueError('is no text; write it like "router bgp; no neighbor swp1 bfd"')
        kept = tuple(line.strip() for line in lines if line.strip())
        if not kept:
            raise ValueError('says nothing; write it like "router bgp; no neighbor swp1 bfd"')
        return kept


class FrrConfig(Reconfigured[LineParameters]):
    """A switch's routing is configured otherwise than its siblings': lines that somebody typed into vtysh."""

    name: ClassVar = "frr-config"
    parameters: ClassVar = LineParameters

    @override
    def typed(self) -> Sequence[running.Line]:
        return [self.p.lines]


_ONE_PATH_OF_OSPF: Final = (("router ospf", "maximum-paths 1", "exit"), ("router ospf6", "maximum-paths 1", "exit"))


class OnePath(Reconfigured[Parameters]):
    """A switch uses one of its equal paths and leaves the others idle: maximum-paths 1."""

    name: ClassVar = "one-path"
    parameters: ClassVar = Parameters

    @override
    def typed(self) -> Sequence[running.Line]:
        underlay = self.fabric.topology.routing.underlay
        if underlay is Underlay.ISIS:
            raise UsageError("isisd has no maximum-paths", "ospf and ebgp have: routing.underlay of the topology")
        if underlay is Underlay.OSPF:
            return _ONE_PATH_OF_OSPF
        return [
            ("router bgp", f"address-family {family} unicast", "maximum-paths 1", "exit-address-family")
            for family in ("ipv4", "ipv6")
        ]


class HashParameters(Parameters):
    """How a switch chooses among equal paths."""

    policy: Annotated[HashPolicy, named(HashPolicy)] | None = None
    """l3: addresses alone; l4: ports too."""
    seed: Annotated[int, between(1, 2**32 - 1)] | None = None
    """Of the hash: the same at two tiers polarises them."""


class EcmpHash(Fault[HashParameters]):
    """A switch hashes flows onto its paths by other fields, or with another seed, than it should."""

    name: ClassVar = "ecmp-hash"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = HashParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(f"{sysctl} of {self.place.node}" for sysctl in self._wanted())

    @override
    def look(self) -> Before:
        wanted = self._wanted()
        if not wanted:
            raise UsageError(f"{self.name} says nothing", "give policy=l3, or seed=1")
        for sysctl in wanted:
            if not tuning.has_sysctl(sysctl):
                raise EnvironmentLacks(f"this kernel has no {sysctl}", "use --vm")
        return self.namespace.inside(lambda: tuning.read_sysctls(wanted))

    @override
    def inject(self, before: Before) -> None:
        self.namespace.inside(lambda: tuning.write_sysctls(self._wanted()))

    @override
    def heal(self, before: Before) -> None:
        self.namespace.inside(lambda: tuning.write_sysctls(before))

    def _wanted(self) -> dict[str, int]:
        wanted = {} if self.p.seed is None else {HASH_SEED: self.p.seed}
        if self.p.policy is not None:
            wanted |= {f"net/{family}/fib_multipath_hash_policy": self.p.policy.sysctl for family in ("ipv4", "ipv6")}
        return wanted
