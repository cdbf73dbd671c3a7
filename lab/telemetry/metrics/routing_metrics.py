"""Metrics of routing daemons: BGP and BFD sessions and VNIs, from the daemons' own sockets, all asked at once."""

from __future__ import annotations

import contextlib
import json
import re
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.routing.vty import Vty
from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.counter_metrics import as_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lab.routing.daemons import Router
    from lab.telemetry.metrics.counter_metrics import Labels, MetricSamples
    from lab.telemetry.metrics.metric_families import MetricFamily

    Found = Iterator[tuple[MetricFamily, Labels, float]]

TIMEOUT: Final = 2.0
"""Seconds after which a daemon that has not answered counts as down."""
_FAMILY: Final = re.compile(r"(?P<afi>ipv4|ipv6|l2Vpn)(?P<safi>\w+)")
_STATES: Final = {"Established": 1.0, "Idle (Admin)": 2.0}
_MS: Final = 1e-3
DUPLICATES: Final = "show evpn mac vni all duplicate json"
"""zebra's command for MAC addresses that it flags as duplicates."""
SEGMENTS: Final = "show evpn es json"
"""zebra's command for Ethernet segments."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A command of a daemon, and the parser of its answer."""

    daemon: str
    command: str
    parser: Callable[[str, Any], Found]


@dataclass
class _Daemon:
    """A daemon of a switch, a query, and the connection for it; None while there is none."""

    node: str
    name: str
    path: Path
    query: _Query
    vty: Vty | None = None

    def ask(self, command: str) -> bool:
        """Send a command, over a new connection if needed; return whether that worked."""
        for _ in range(2):  # a connection to a daemon that was restarted since fails first
            try:
                self.vty = self.vty or Vty(self.path)
                self.vty.ask(command)
            except OperationFailed:
                self.close()
            else:
                return True
        return False

    def answer(self) -> str | None:
        """Return the answer; None while it is incomplete, and if the connection is lost: ``vty`` is None then."""
        try:
            return self.vty.answer() if self.vty is not None else None
        except OperationFailed:
            self.close()
            return None

    def close(self) -> None:
        """Close the connection; an answer that is still to come belongs to no later request."""
        if self.vty is not None:
            self.vty.close()
            self.vty = None


class RoutingMetrics:
    """The sessions of a fabric's routers. Connections stay open between scrapes."""

    def __init__(self, routers: Mapping[str, Router], *, evpn: bool = False) -> None:
        """With ``evpn``, zebra is also asked for duplicate addresses and Ethernet segments."""
        self._daemons = [
            _Daemon(node=node, name=query.daemon, path=path, query=query)
            for node, router in routers.items()
            for query in (*_QUERIES, *(_EVPN_QUERIES if evpn else ()))
            if (path := router.directory / f"{query.daemon}.vty").exists()
        ]

    def look(self, timeout: float = TIMEOUT) -> list[MetricSamples]:
        """Return the samples of all families; those of a daemon that does not answer are absent."""
        answers = self._answers(time.monotonic() + timeout)
        read = as_samples(value for daemon in self._daemons for value in _read(daemon, answers.get(id(daemon))))
        found = {samples.family.name: samples for samples in read}
        return [found[family.name] for family in families.FAMILIES if family.name in found]

    def _answers(self, deadline: float) -> dict[int, str]:
        """Ask all daemons, and return the answers that arrive in time."""
        waiting = {}
        ready = select.poll()
        for daemon in self._daemons:
            if daemon.ask(daemon.query.command) and daemon.vty is not None:
                waiting[daemon.vty.socket.fileno()] = daemon
                ready.register(daemon.vty.socket, select.POLLIN)
        answers: dict[int, str] = {}
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in ready.poll(left * 1000):
                daemon = waiting[descriptor]
                if (said := daemon.answer()) is not None:
                    answers[id(daemon)] = said
                if said is not None or daemon.vty is None:
                    ready.unregister(descriptor)
                    del waiting[descriptor]
        for daemon in waiting.values():
            daemon.close()
        return answers

    def close(self) -> None:
        """Close all connections."""
        for daemon in self._daemons:
            daemon.close()


def _read(daemon: _Daemon, said: str | None) -> Found:
    """Yield the samples in a daemon's answer, then whether it was one. Without EVPN, zebra's answer is empty."""
    samples: list[tuple[MetricFamily, Labels, float]] = []
    up = 0.0
    if said is not None:
        with contextlib.suppress(ValueError, KeyError, AttributeError, TypeError):
            samples = list(daemon.query.parser(daemon.node, json.loads(said.strip() or "{}")))
            up = 1.0
    yield from samples
    if daemon.query in _QUERIES:
        yield families.COLLECTOR_UP, (daemon.node, daemon.name.removesuffix("d")), up


def bgp_samples(node: str, said: Mapping[str, Any]) -> Found:
    """Yield the samples in ``show bgp summary json``: of each peer, once for each address family."""
    for name, summary in said.items():
        if (matched := _FAMILY.fullmatch(name)) is None:
            continue
        afi, safi = matched["afi"].lower(), matched["safi"].lower()
        for peer, about in summary.get("peers", {}).items():
            vrf, local_as, peer_as = summary.get("vrfName", "default"), summary["as"], about["remoteAs"]
            labels = (node, vrf, afi, safi, str(local_as), peer, str(peer_as), about.get("desc", ""))
            yield families.BGP_STATE, labels, _STATES.get(about["state"], 0.0)
            yield families.BGP_UPTIME, labels, about.get("peerUptimeMsec", 0) * _MS
            yield families.BGP_RECEIVED, labels, about["msgRcvd"]
            yield families.BGP_SENT, labels, about["msgSent"]


def bfd_samples(node: str, said: Any) -> Found:
    """Yield the samples in ``show bfd peers json``."""
    for peer in said:
        labels = (node, peer.get("local", ""), peer["peer"], peer.get("interface", ""))
        yield families.BFD_STATE, labels, float(peer["status"] == "up")
        yield families.BFD_UPTIME, labels, float(peer.get("uptime", 0))


def vni_samples(node: str, said: Mapping[str, Any]) -> Found:
    """Yield the samples in ``show evpn vni json``. L3VNIs have no number of VTEPs, and are left out."""
    for vni in said.values():
        if isinstance(vteps := vni["numRemoteVteps"], int):
            labels = (node, str(vni["vni"]), vni["type"], vni.get("vxlanIf", ""), vni.get("tenantVrf", ""))
            yield families.REMOTE_VTEPS, labels, vteps


def duplicate_samples(node: str, said: Mapping[str, Any]) -> Found:
    """Yield the samples in ``show evpn mac vni all duplicate json``, which has only VNIs with such addresses."""
    for vni, about in said.items():
        yield families.DUPLICATE_MACS, (node, str(vni)), float(about["numMacs"])


def segment_samples(node: str, said: Any) -> Found:
    """Yield the samples in ``show evpn es json``: of segments with a bond of this leaf."""
    for segment in said:
        if port := segment.get("accessPort"):
            yield families.SEGMENT_VTEPS, (node, port), float(len(segment.get("vteps", ())))


_QUERIES: Final = (
    _Query("bgpd", "show bgp summary json", bgp_samples),
    _Query("bfdd", "show bfd peers json", bfd_samples),
    _Query("zebra", "show evpn vni json", vni_samples),
)
"""The query that shows whether a daemon answers."""
_EVPN_QUERIES: Final = (
    _Query("zebra", DUPLICATES, duplicate_samples),
    _Query("zebra", SEGMENTS, segment_samples),
)
