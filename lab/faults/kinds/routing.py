"""Faults of routing: stopped or killed daemons, FRR configuration, and ECMP hashing."""

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
from lab.model.topology import HashPolicy, Role, Underlay
from lab.routing import running
from lab.wire.craft.packet_values import between, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before
    from lab.model.topology import Topology
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
    """The parameters of daemon faults."""

    daemon: Annotated[Daemon, named(Daemon)] | None = None
    """zebra, bfdd, bgpd, ospfd, ospf6d or isisd. By default the daemon that learns routes: bgpd, ospfd or isisd."""


_OF_UNDERLAY: Final = {Underlay.OSPF: Daemon.OSPFD, Underlay.ISIS: Daemon.ISISD}
"""The routing daemon of an underlay without BGP; for OSPF the one for IPv4."""


def _learning(topology: Topology) -> Daemon:
    """Return the daemon that learns routes to hosts: bgpd wherever it runs."""
    return Daemon.BGPD if topology.has_bgp else _OF_UNDERLAY.get(topology.routing.underlay, Daemon.BGPD)


def _alive(router: Router, daemon: Daemon) -> Router:
    if not router.lives(daemon.value):
        running_now = [each.value for each in Daemon if router.lives(each.value)]
        hint = f"running there: {', '.join(running_now)}" if running_now else "rocelab status"
        raise UsageError(f"{daemon.value} of {router.name} does not run", hint)
    return router


class OfDaemon(Fault[DaemonParameters]):
    """A kind that affects a daemon of a switch, and so the FRR configuration, which needs the daemon."""

    form: ClassVar = Form.SWITCH
    parameters: ClassVar = DaemonParameters

    @property
    def daemon(self) -> Daemon:
        """The given daemon, or the one that learns routes."""
        return self.p.daemon or _learning(self.fabric.topology)

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"{self.daemon.value} of {self.place.node}", f"FRR's configuration of {self.place.node}"})


class DaemonStopped(OfDaemon):
    """A routing daemon hangs: its sockets stay open, but it does not answer."""

    name: ClassVar = "daemon-stopped"

    @override
    def look(self) -> Before:
        _alive(self.fabric.router(self.place.node), self.daemon)
        return {}

    @override
    def inject(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.daemon.value, signal.SIGSTOP)

    @override
    def heal(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.daemon.value, signal.SIGCONT)


class DaemonKilled(OfDaemon):
    """A routing daemon crashes and is not restarted."""

    name: ClassVar = "daemon-killed"

    @override
    def look(self) -> Before:
        return _configuration(_alive(self.fabric.router(self.place.node), self.daemon))

    @override
    def inject(self, before: Before) -> None:
        self.fabric.router(self.place.node).signal(self.daemon.value, signal.SIGKILL)

    @override
    def heal(self, before: Before) -> None:
        router = self.fabric.router(self.place.node)
        router.start_again(self.daemon.value)
        running.restore(router, _lines(before))


def _configuration(router: Router) -> Before:
    """Return the running configuration as plain data for JSON."""
    return {"configuration": [list(line) for line in running.running(router)]}


def _lines(before: Before) -> list[running.Line]:
    return [tuple(line) for line in before["configuration"]]


F = TypeVar("F", bound=Parameters)


class Reconfigured(Fault[F], Generic[F]):
    """A kind that changes the FRR configuration of a switch. Healing restores the recorded one."""

    form: ClassVar = Form.SWITCH

    @abstractmethod
    def typed(self) -> Sequence[running.Line]:
        """Return the configuration lines, each after its contexts."""

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
    """The parameters of frr-config."""

    lines: tuple[str, ...]
    """Lines for FRR after `configure terminal`, separated by semicolons: "router bgp; no neighbor swp1 bfd"."""

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
    """A switch's routing is configured differently than its siblings': lines entered in vtysh."""

    name: ClassVar = "frr-config"
    parameters: ClassVar = LineParameters

    @override
    def typed(self) -> Sequence[running.Line]:
        return [self.p.lines]


_ONE_PATH_OF_OSPF: Final = (("router ospf", "maximum-paths 1", "exit"), ("router ospf6", "maximum-paths 1", "exit"))
_DEARER: Final = "isis metric 11"
"""One more than the metric of every other link: worse than the best path, but better than any detour."""


class OnePath(Reconfigured[Parameters]):
    """A switch uses only one of its equal-cost paths: maximum-paths 1.

    isisd has no such limit. There a leaf gets a higher metric on all uplinks but the first. Other switches are
    refused, because their metrics would also divert transit traffic.
    """

    name: ClassVar = "one-path"
    parameters: ClassVar = Parameters

    @override
    def typed(self) -> Sequence[running.Line]:
        underlay = self.fabric.topology.routing.underlay
        if underlay is Underlay.ISIS:
            return self._dearer_uplinks()
        if underlay is Underlay.OSPF:
            return _ONE_PATH_OF_OSPF
        return [
            ("router bgp", f"address-family {family} unicast", "maximum-paths 1", "exit-address-family")
            for family in ("ipv4", "ipv6")
        ]

    def _dearer_uplinks(self) -> Sequence[running.Line]:
        """Return lines with a higher IS-IS metric for all of a leaf's uplinks but the first."""
        topology, name = self.fabric.topology, self.place.node
        if topology.node(name).role is not Role.LEAF:
            raise UsageError(f"{self.name}: isisd has no limit of paths, and {name} is no leaf", "name a leaf")
        uplinks = [
            link.end_at(name).interface
            for link in topology.links_of(name)
            if topology.node(link.other(link.end_at(name)).node).role.is_switch
        ]
        return [(f"interface {interface}", _DEARER, "exit") for interface in uplinks[1:]]


class HashParameters(Parameters):
    """The parameters of ecmp-hash."""

    policy: Annotated[HashPolicy, named(HashPolicy)] | None = None
    """l3: addresses only; l4: also ports."""
    seed: Annotated[int, between(1, 2**32 - 1)] | None = None
    """The seed of the hash: the same seed at two tiers polarises them."""


class EcmpHash(Fault[HashParameters]):
    """A switch hashes flows onto its paths with other fields or another seed than expected."""

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
