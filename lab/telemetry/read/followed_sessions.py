"""The states of sessions by the events of routers, also while a daemon is lost, which reports no session as down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from lab.telemetry.store.session_states import LOST, SESSION_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SessionKey: TypeAlias = "tuple[str, str, str]"
"""A session: its router, its interface there, and the kind of its events (``bgp``)."""
_OF_DAEMONS: Final = frozenset({"daemon_lost", "daemon_back"})


class SessionStates:
    """Takes the events of routers in order.

    Sessions of a daemon that has ended are ``LOST`` until it is back. Then they have the state of before, from which
    the daemon reports the changes.
    """

    def __init__(self) -> None:
        self._now: dict[SessionKey, str] = {}
        self._before: dict[SessionKey, str] = {}

    def take(self, kind: str, node: str, interface: str, data: Mapping[str, Any]) -> dict[SessionKey, str]:
        """Take an event of the source ``routing``; return the sessions that it changes, with their new states."""
        changed: dict[SessionKey, str] = {}
        if kind in _OF_DAEMONS:
            protocol = SESSION_KINDS.get(str(data.get("daemon")))
            mine = [key for key in self._now if (key[0], key[2]) == (node, protocol)]
            if kind == "daemon_lost":
                self._before |= {key: self._now[key] for key in mine if self._now[key] != LOST}
                changed = dict.fromkeys(mine, LOST)
            else:
                changed = {key: self._before.pop(key) for key in mine if key in self._before}
        elif "state" in data:
            changed = {(node, interface, kind): str(data["state"])}
        self._now |= changed
        return changed
