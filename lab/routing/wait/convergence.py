"""Waiting until every switch forwards to every leaf by all its shortest paths, and saying exactly what is missing."""

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
"""Of a router: its daemons, each of which is watched."""
_SPARE: Final = 32
"""For the programs that read tables meanwhile, and what else there is."""
_QUIET: Final = 0.1
"""Seconds without news after which a table is worth reading."""
_IMPATIENCE: Final = 1.0
"""Seconds after which it is read although news keeps coming."""


def await_convergence(
    topology: Topology,
    routers: Mapping[str, Router],
    expected: Mapping[str, Sequence[RouteExpectation]],
    timeout: float,
    progress: Callable[[int, int], None],
) -> None:
    """Return when every switch has what is expected of it; ``progress`` is told (switches done, switches).

    Raises NotConverged after ``timeout`` seconds, naming sessions and routes, and OperationFailed as soon as
    a daemon ends.
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
    """Switches that are not done: what each lacked when last read, and when to read it again."""

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
    """What it lacks of the first that is not there; what comes later stands on it, and need not be read yet."""
    return next(filter(None, (each.gaps(router) for each in expected)), ())


def _watch_daemons(news: RouteNews, routers: Iterable[Router]) -> dict[str, tuple[Router, str]]:
    """Have every daemon's end reported; returns whose end each report is."""
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
    """The first session or adjacency that is down is the likeliest cause; else the first route that lacks a path."""
    for switch in missing:
        if what := _down(routers[switch], topology):
            return f"not converged after {timeout:g} s: {what}"
    first = next(iter(missing.values()))[0]
    total = sum(map(len, missing.values()))
    return f"not converged after {timeout:g} s: {first} ({total} such routes on {len(missing)} switches)"


def _down(router: Router, topology: Topology) -> str:
    """The first adjacency or session of a switch that is not up; "" when all are."""
    for each in neighbours(router, topology):
        if not each.full:
            where = f"{router.name} {each.interface} to {each.description}"
            return f"{each.protocol} adjacency {where} is {each.state}"
    for session in sessions(router) if topology.has_bgp else ():
        if not session.established:
            return f"BGP session {router.name} {session.interface} to {session.description} is {session.state}"
    return ""
