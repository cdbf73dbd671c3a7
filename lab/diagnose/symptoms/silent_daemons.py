"""Symptoms of routing daemons that do not answer: gone, or hanging with their sockets open."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_LOOKS: Final = 3
"""Consecutive polls without an answer, up to the end of the window; after fewer the daemon may just be busy."""
_BETWEEN: Final = 1.5
"""The maximum seconds between two polls. A daemon is polled once a second."""


def a_daemon_is_gone(facts: WindowFacts) -> Iterator[Sign]:
    """No process listens at a daemon's socket."""
    for each in facts.silences:
        if each.gone:
            says = f"the socket of {each.daemon} is closed"
            yield Sign(
                each.node, (Evidence(says=says, of=each.node, source=each.daemon, value=0, at=each.seconds),), 0.95
            )


def a_daemon_stands_still(facts: WindowFacts) -> Iterator[Sign]:
    """A daemon accepts requests and answers none, until the window ends."""
    for node, daemon in dict.fromkeys((each.node, each.daemon) for each in facts.silences if not each.gone):
        looks = sorted(each.seconds for each in facts.silences if (each.node, each.daemon) == (node, daemon))
        latest = [*looks[-_LOOKS:], facts.end]
        if len(looks) >= _LOOKS and all(b - a <= _BETWEEN for a, b in itertools.pairwise(latest)):
            says = f"times {daemon} did not answer a request for its sessions"
            yield Sign(node, (Evidence(says=says, of=node, source=daemon, value=len(looks), at=looks[-1]),), 0.9)
