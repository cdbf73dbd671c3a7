"""The state of a router's daemons: liveness, running configuration, BGP and BFD sessions, VNIs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lab.audit.audited import UnreadPart
from lab.audit.objects.routing_objects import (
    BFD_STARTING,
    BFD_UP,
    BGP_SHUTDOWN,
    BfdSessionAudit,
    BgpSessionAudit,
    DaemonAudit,
    FrrLineAudit,
    VniAudit,
)
from lab.errors import LabError
from lab.routing.frr_secrets import running_configuration
from lab.routing.running import parse
from lab.routing.vty import Vty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.routing.daemons import Router

_PATIENCE: Final = 10.0
"""Seconds without an answer before a daemon counts as silent."""
_SESSIONS: Final = "show bgp vrf all neighbors json"
_BFD: Final = "show bfd peers json"
_VNIS: Final = "show evpn vni detail json"
_HEADER: Final = ("frr version", "frr defaults", "hostname", "password", "log ", "service integrated-vtysh-config")
_DEFAULT_VRF: Final = "default"
_NO_DIAGNOSTIC: Final = "ok"
_MS: Final = 1000


class RouterState:
    """The objects of one router, and its daemons that did not answer."""

    def __init__(self, router: Router, key: bytes) -> None:
        """Ask all daemons; never raises for a daemon that is dead or silent. ``key`` is that of digests."""
        self.unread: list[UnreadPart] = []
        self.daemons = tuple(DaemonAudit(name, router.lives(name)) for name in router.pids())
        self._answers: dict[str, dict[str, Any]] = {}
        lines: dict[str, None] = {}
        for daemon in self.daemons:
            if daemon.running:
                lines |= dict.fromkeys(self._ask(router, daemon.name, key))
        self.frr = tuple(FrrLineAudit(line) for line in lines)
        self.bgp = tuple(parse_neighbors(self._answers.get("bgpd", {}).get(_SESSIONS) or {}))
        self.bfd = tuple(_bfd(each) for each in self._answers.get("bfdd", {}).get(_BFD) or ())
        self.vnis = tuple(map(_vni, self._answers.get("zebra", {}).get(_VNIS) or ()))

    def _ask(self, router: Router, daemon: str, key: bytes) -> list[str]:
        """Keep a daemon's answers, and return the lines of its running configuration."""
        shows = {"bgpd": [_SESSIONS], "bfdd": [_BFD], "zebra": [_VNIS]}.get(daemon, [])
        lines: list[str] = []
        try:
            with Vty(router.terminal(daemon)) as terminal:
                lines = configuration_lines(running_configuration(terminal, key, _PATIENCE))
                for command in shows:
                    said = terminal.answer_to(command, _PATIENCE)
                    self._answers.setdefault(daemon, {})[command] = json.loads(said or "null")
        except (LabError, json.JSONDecodeError) as error:
            self.unread.append(UnreadPart(daemon, str(error)))
        return lines


def configuration_lines(text: str) -> list[str]:
    """Return the lines of a running configuration with their contexts in front, without its header."""
    return [" / ".join(line) for line in parse(text) if not line[0].startswith(_HEADER)]


def parse_neighbors(vrfs: Mapping[str, Any]) -> Iterator[BgpSessionAudit]:
    """Yield the sessions of ``show bgp vrf all neighbors json``."""
    for vrf, peers in vrfs.items():
        for peer, shown in peers.items():
            if isinstance(shown, dict) and "bgpState" in shown:
                yield _session(peer, "" if vrf == _DEFAULT_VRF else vrf, shown)


def _session(peer: str, vrf: str, shown: Mapping[str, Any]) -> BgpSessionAudit:
    families = shown.get("addressFamilyInfo", {})
    return BgpSessionAudit(
        peer=peer,
        vrf=vrf,
        state=BGP_SHUTDOWN if shown.get("adminShutDown") is True else str(shown["bgpState"]),
        remote_as=int(shown.get("remoteAs", 0)),
        local_as=int(shown.get("localAs", 0)),
        hold_time=shown.get("bgpTimerHoldTimeMsecs", 0) / _MS,
        keepalive=shown.get("bgpTimerKeepAliveIntervalMsecs", 0) / _MS,
        families=tuple(sorted(families)),
        uptime=shown.get("bgpTimerUpMsec", 0) / _MS,
        established=int(shown.get("connectionsEstablished", 0)),
        dropped=int(shown.get("connectionsDropped", 0)),
        last_reset=str(shown.get("lastResetDueTo", "")),
        reset_age=shown.get("lastResetTimerMsecs", 0) / _MS,
        prefixes={name: int(each.get("acceptedPrefixCounter", 0)) for name, each in sorted(families.items())},
    )


def _bfd(shown: Mapping[str, Any]) -> BfdSessionAudit:
    return BfdSessionAudit(
        interface=str(shown.get("interface", "")),
        peer=str(shown.get("peer", "")),
        status=BFD_STARTING if _is_starting(shown) else str(shown.get("status", "")),
        receive_interval=int(shown.get("receive-interval", 0)),
        transmit_interval=int(shown.get("transmit-interval", 0)),
        multiplier=int(shown.get("detect-multiplier", 0)),
        uptime=float(shown.get("uptime", 0)),
        diagnostic=str(shown.get("diagnostic", "")),
    )


def _is_starting(shown: Mapping[str, Any]) -> bool:
    """Return whether a session has neither come up nor failed: no end has a diagnostic (RFC 5880 section 4.1)."""
    diagnostics = {shown.get("diagnostic"), shown.get("remote-diagnostic")}
    return shown.get("status") != BFD_UP and diagnostics == {_NO_DIAGNOSTIC}


def _vni(shown: Mapping[str, Any]) -> VniAudit:
    remotes = shown.get("numRemoteVteps") or ()
    named = remotes if isinstance(remotes, list) else shown.get("remoteVteps", ())
    return VniAudit(
        vni=int(shown.get("vni", 0)),
        type=str(shown.get("type", "")),
        vrf=str(shown.get("vrf", shown.get("tenantVrf", ""))),
        tunnel=str(shown.get("vxlanInterface", shown.get("vxlanIntf", ""))),
        local=str(shown.get("vtepIp", shown.get("localVtepIp", ""))),
        remotes=tuple(sorted(str(each.get("ip", each)) if isinstance(each, dict) else str(each) for each in named)),
        macs=_count(shown.get("numMacs")),
        neighbours=_count(shown.get("numArpNd")),
    )


def _count(said: object) -> int:
    return int(said) if isinstance(said, int) else 0
