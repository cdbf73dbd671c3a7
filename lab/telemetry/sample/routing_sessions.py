"""Sessions of all routers, polled once a second over the daemons' own sockets, and reported on change.

These are the sessions of BGP and BFD, and the adjacencies of OSPF and IS-IS. zebra and pimd have none: they are only
checked for liveness, like watchfrr(8) does.

A change is reported when it is seen: up to a second late. A session that went down and up between two polls is
recognised by FRR's count of times that it was established, or without a count by its age. Events of the kernel on
links and routes are exact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.routing.show import parse_bfd, parse_sessions
from lab.routing.vty import Vty
from lab.routing.wait.adjacency import LOOKS, parse_isis, parse_ospf, parse_ospf6
from lab.telemetry.store.session_states import DOWN, SESSION_KINDS, UP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.routing.daemons import Router

_NS: Final = 10**9
INTERVAL: Final = _NS
"""The interval between two polls of a daemon, in ns."""
_YOUNGER: Final = 1.5
"""A session whose age shrank by more than this, in seconds, is a new one: ages are in whole seconds."""
_PRESENT: Final = "echo present"
_COMMANDS: Final = {
    "bgpd": "show bgp summary json", "bfdd": "show bfd peers json", **LOOKS, "zebra": _PRESENT, "pimd": _PRESENT,
}  # fmt: skip
_ADJACENCIES: Final = {"ospfd": parse_ospf, "ospf6d": parse_ospf6, "isisd": parse_isis}
_DAY: Final = 86_400.0
"""Seconds from which ospf6d reports an age in minutes or hours: too coarse to compare."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as reported by a daemon."""

    state: str
    since: float = 0.0
    """When the session was established, in seconds of CLOCK_MONOTONIC; exact if the answer was read without delay."""
    connections: int | None = None
    """Number of times the session was established; None if the daemon does not count."""

    def has_changed(self, before: SessionState) -> bool:
        """Whether the state differs, or the session was established again in between."""
        if self.state != before.state:
            return True
        if self.connections is not None and before.connections is not None:
            return self.connections > before.connections
        return self.since > before.since + _YOUNGER


@dataclass
class _Daemon:
    """One daemon of one router, and its last answer, by interface."""

    node: str
    name: str
    path: Path
    vty: Vty | None
    next_look: int
    waiting: bool = False
    known: dict[str, SessionState] = field(default_factory=dict)
    lost: bool = False
    """Whether its loss has been reported."""
    answered: bool = False


class Sessions:
    """Polls the daemons without blocking. A lost daemon is reported once, and again when it is back."""

    def __init__(self, routers: Mapping[str, Router], now: int) -> None:
        self._daemons: list[_Daemon] = []
        for node, router in routers.items():
            for name in _COMMANDS:
                path = router.directory / f"{name}.vty"
                if path.exists():
                    # Spread the polls over the interval: an answer costs a daemon CPU time.
                    later = now + INTERVAL * len(self._daemons) // (2 * max(1, len(routers)))
                    self._daemons.append(
                        _Daemon(node=node, name=name, path=path, vty=_connected(path), next_look=later)
                    )

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that must stay open."""
        return [daemon.vty.socket.fileno() for daemon in self._daemons if daemon.vty is not None]

    @property
    def are_known(self) -> bool:
        """Whether every daemon with sessions has answered once, or is gone."""
        return all(each.answered or each.lost for each in self._daemons if each.name in SESSION_KINDS)

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Poll the daemons that are due, and yield an event for each change in answers that have arrived."""
        for daemon in self._daemons:
            if daemon.vty is not None:
                try:
                    yield from self._look_at(daemon, daemon.vty, now)
                except (OperationFailed, ValueError, KeyError, AttributeError, TypeError):
                    daemon.vty.close()
                    daemon.vty = None
            elif now >= daemon.next_look:
                daemon.vty, daemon.next_look = _connected(daemon.path), now + INTERVAL
            if daemon.lost is not (daemon.vty is None):
                daemon.lost, daemon.waiting = daemon.vty is None, False
                kind = "daemon_lost" if daemon.lost else "daemon_back"
                yield {"source": "routing", "kind": kind, "node": daemon.node, "daemon": daemon.name}

    def _look_at(self, daemon: _Daemon, vty: Vty, now: int) -> Iterator[dict[str, Any]]:
        said = vty.answer() if daemon.waiting else None
        if said is not None:
            daemon.waiting, daemon.answered = False, True
            if daemon.name in SESSION_KINDS:
                yield from changes(daemon.node, daemon.name, daemon.known, json.loads(said), now)
        if now < daemon.next_look:
            return
        if daemon.waiting:
            yield {"source": "routing", "kind": "daemon_silent", "node": daemon.node, "daemon": daemon.name}
        else:
            vty.ask(_COMMANDS[daemon.name])
        daemon.waiting = True
        daemon.next_look = now + INTERVAL

    def close(self) -> None:
        """Close all sockets."""
        for daemon in self._daemons:
            if daemon.vty is not None:
                daemon.vty.close()


def _connected(path: Path) -> Vty | None:
    try:
        return Vty(path)
    except OperationFailed:
        return None


def changes(node: str, daemon: str, known: dict[str, SessionState], said: Any, now: int) -> Iterator[dict[str, Any]]:
    """Yield an event for each session that differs from ``known``, which is updated; all for a first answer.

    The event of a session that FRR counts has ``connections``. In a first answer, a session that is up has its
    ``age`` in seconds, if the daemon reports it.
    """
    found, ages = _sessions(daemon, said, now / _NS), _ages(daemon, said)
    if daemon in _ADJACENCIES:
        found |= {interface: SessionState(DOWN) for interface in known.keys() - found.keys()}
    for interface in [*found, *(known.keys() - found.keys())]:
        before, after = known.get(interface, SessionState("")), found.get(interface, SessionState("gone"))
        if after.has_changed(before):
            more: dict[str, Any] = {} if after.connections is None else {"connections": after.connections}
            if not before.state and interface in ages:
                more["age"] = ages[interface]
            yield {
                "source": "routing", "kind": SESSION_KINDS[daemon], "node": node, "interface": interface,
                "state": after.state, "before": before.state, **more,
            }  # fmt: skip
    known.clear()
    known.update(found)


def _ages(daemon: str, said: Any) -> dict[str, float]:
    """Return the age of each session that is up, in seconds, by interface."""
    if daemon == "bfdd":
        return {peer["interface"]: peer["uptime"] for peer in said if peer["status"] == "up" and "uptime" in peer}
    if daemon in _ADJACENCIES:
        up = UP[SESSION_KINDS[daemon]]
        adjacencies = _ADJACENCIES[daemon](said).items()
        return {interface: age for interface, (state, age) in adjacencies if state == up and age < _DAY}
    return {each.interface: each.uptime for each in parse_sessions(said) if each.established}


def _sessions(daemon: str, said: Any, now: float) -> dict[str, SessionState]:
    if daemon == "bfdd":
        return {interface: SessionState("up" if up else "down") for interface, up in parse_bfd(said).items()}
    if daemon in _ADJACENCIES:
        ages = _ages(daemon, said)
        return {
            interface: SessionState(state, now - ages[interface] if ages.get(interface) else 0.0)
            for interface, (state, _) in _ADJACENCIES[daemon](said).items()
        }
    return {
        session.interface: SessionState(
            session.state, now - session.uptime if session.established else 0.0, session.connections
        )
        for session in parse_sessions(said)
    }
