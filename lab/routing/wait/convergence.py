"""Wait until every switch has all shortest paths to every leaf, and report missing ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lab.errors import NotConverged, OperationFailed
from lab.kernel.netlink.routes import RouteNews
from lab.kernel.process import process
from lab.routing.show import sessions
from lab.routing.wait.adjacency import neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.model.topology import Topology
    from lab.routing.daemons import Router
    from lab.routing.wait.unconverged import RouteExpectation, RouteGap

_DESCRIPTORS: Final = 5
"""File descriptors for each router: one for each daemon watched."""
_SPARE: Final = 32
"""File descriptors for programs that read tables, and for others."""
_QUIET: Final = 0.1
"""Seconds without route events before a table is read."""
_IMPATIENCE: Final = 1.0
"""Seconds before a table is read although events continue."""


def await_convergence(
    topology: Topology,
    routers: Mapping[str, Router],
    expected: Mapping[str, Sequence[RouteExpectation]],
    timeout: float,
    progress: Callable[[int, int], None],
) -> None:
    """Return when every switch has its expected routes; raise NotConverged after ``timeout`` seconds.

    ``progress`` is called with the number of complete switches and of all switches. NotConverged names sessions and
    routes. OperationFailed is raised as soon as a daemon ends.
    """
    process.allow_descriptors(len(expected) + _DESCRIPTORS * len(routers) + _SPARE)
    owners = {router.namespace.name: name for name, router in routers.items()}
    pending = _Pending(expected)
    with RouteNews([routers[switch].namespace for switch in expected]) as news:
        daemons = _watch_daemons(news, routers.values())
        deadline = time.monotonic() + timeout
        while True:
            for switch in pending.due():
                pending.checked(switch, _first_gaps(routers[switch], expected[switch]))
            progress(len(expected) - len(pending), len(expected))
            if not pending:
                return
            if time.monotonic() > deadline:
                raise NotConverged(_explain(topology, routers, pending.gaps, timeout), "see rocelab status")
            for name in news.wait(pending.pause()):
                if name in daemons:
                    raise _ended(*daemons[name])
                pending.heard(owners[name])


class _Pending:
    """Switches that are incomplete: their gaps at the last reading, and the time of the next one."""

    def __init__(self, switches: Iterable[str]) -> None:
        self.gaps: dict[str, Sequence[RouteGap]] = dict.fromkeys(switches, ())
        self._due = dict.fromkeys(self.gaps, 0.0)
        self._read = dict.fromkeys(self.gaps, 0.0)

    def __len__(self) -> int:
        return len(self.gaps)

    def due(self) -> list[str]:
        now = time.monotonic()
        return [switch for switch in self.gaps if self._due[switch] <= now]

    def checked(self, switch: str, found: Sequence[RouteGap]) -> None:
        if not found:
            del self.gaps[switch]
            return
        self.gaps[switch] = found
        self._read[switch] = time.monotonic()
        self._due[switch] = self._read[switch] + _IMPATIENCE

    def heard(self, switch: str) -> None:
        if switch in self.gaps:
            self._due[switch] = min(time.monotonic() + _QUIET, self._read[switch] + _IMPATIENCE)

    def pause(self) -> float:
        return max(0.0, min(self._due[switch] for switch in self.gaps) - time.monotonic())


def _first_gaps(router: Router, expected: Iterable[RouteExpectation]) -> Sequence[RouteGap]:
    """Return the gaps of the first unmet expectation; later ones depend on it, and are not read yet."""
    return next(filter(None, (each.gaps(router) for each in expected)), ())


def _watch_daemons(news: RouteNews, routers: Iterable[Router]) -> dict[str, tuple[Router, str]]:
    """Subscribe to the end of every daemon; return router and daemon by the label of the event."""
    watched = {}
    for router in routers:
        for daemon, pid in router.pids().items():
            label = f"{daemon}@{router.name}"
            watched[label] = router, daemon
            try:
                news.watch_process(pid, label)
            except ProcessLookupError:
                raise _ended(router, daemon) from None
    return watched


def _ended(router: Router, daemon: str) -> OperationFailed:
    return OperationFailed(f"{router.name}: {daemon} ended while the fabric came up", router.last_words(daemon))


def _explain(
    topology: Topology, routers: Mapping[str, Router], missing: Mapping[str, Sequence[RouteGap]], timeout: float
) -> str:
    """Name the likeliest cause: the first session or adjacency that is down, else the first incomplete route."""
    for switch in missing:
        if what := _down(routers[switch], topology):
            return f"not converged after {timeout:g} s: {what}"
    first = next(iter(missing.values()))[0]
    total = sum(map(len, missing.values()))
    return f"not converged after {timeout:g} s: {first} ({total} such routes on {len(missing)} switches)"


def _down(router: Router, topology: Topology) -> str:
    """Return the first adjacency or session of a switch that is not up; "" if all are up."""
    for each in neighbours(router, topology):
        if not each.full:
            where = f"{router.name} {each.interface} to {each.description}"
            return f"{each.protocol} adjacency {where} is {each.state}"
    for session in sessions(router) if topology.has_bgp else ():
        if not session.established:
            return f"BGP session {router.name} {session.interface} to {session.description} is {session.state}"
    return ""
