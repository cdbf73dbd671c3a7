"""Build trees of pauses from the XOFFs in a capture, to find the node that paused first.

A paused node fills up, and then pauses its upstream neighbours. So the pauses that a node sent are attributed to the
first pause that had stopped it. A node that was not paused before is the root of a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.analysis.results.analysis_facts import FirstPause, PauseTree
from lab.analysis.results.number_format import DIRECTIONS, class_or_none, mac

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.analysis.pfc.pause_intervals import Paused, Port
    from lab.analysis.read.capture_file import CaptureFile

_NOBODY: Final = -1
_DEEPEST: Final = 32
"""Maximum depth of a tree. Fabrics have fewer stages; this bounds trees from crafted files."""


class _Sent(NamedTuple):
    """Pauses of one class from one end of a link to the other; times in ns since 1970."""

    since: int
    end: str
    peer: str
    cls: int
    paused: Paused


def pause_trees(
    ports: Mapping[Port, Paused], capture: CaptureFile, start: int, seconds: float
) -> tuple[PauseTree, ...]:
    """Return a tree for each node that began to pause, in order of time. Times are relative to ``start`` (ns)."""
    every = _every(ports, capture)
    behind: dict[int, list[int]] = {}
    for place, leader in enumerate(_leaders(every)):
        behind.setdefault(leader, []).append(place)
    trees: dict[tuple[int, str], list[int]] = {}
    for place in behind.get(_NOBODY, ()):
        trees.setdefault((every[place].cls, _node(every[place].end)), []).append(place)

    def grown(place: int) -> FirstPause:
        sent = every[place]
        paused, _ = sent.paused.known
        share = paused / 1e9 / seconds if paused and seconds else None
        since = (sent.since - start) / 1e9
        return FirstPause(
            end=sent.end,
            peer=sent.peer,
            since=since,
            xoffs=sent.paused.xoff,
            share=share,
            behind=tuple(map(grown, behind.get(place, ()))),
        )

    made = [
        PauseTree(
            priority=class_or_none(cls),
            node=node,
            since=(every[places[0]].since - start) / 1e9,
            pauses=tuple(map(grown, places)),
        )
        for (cls, node), places in trees.items()
    ]
    return tuple(sorted(made, key=lambda tree: tree.since))


def _every(ports: Mapping[Port, Paused], capture: CaptureFile) -> list[_Sent]:
    """Return all pauses in order of their start. Those captured at both ends of a link appear once."""
    names, peers = capture.names, [interface.peer for interface in capture.interfaces]
    known: dict[tuple[str, str, int], _Sent] = {}
    for (number, direction, sender, cls), paused in ports.items():
        if paused.since is not None:
            ends = _ends(names[number], peers[number], DIRECTIONS[direction], mac(sender))
            sent = _Sent(paused.since, *ends, cls, paused)
            known[*ends, cls] = min(sent, known.get((*ends, cls), sent), key=lambda each: each.since)
    return sorted(known.values(), key=lambda sent: (sent.since, sent.cls, sent.end, sent.peer))


def _leaders(every: Sequence[_Sent]) -> list[int]:
    """Return, for each pause, the index of the first earlier pause of its sender."""
    stopped: dict[tuple[int, str], int] = {}
    depths: list[int] = []
    leaders = []
    for place, sent in enumerate(every):
        leader = stopped.get((sent.cls, _node(sent.end)), _NOBODY)
        depth = 0 if leader == _NOBODY else depths[leader] + 1
        leaders.append(leader if depth < _DEEPEST else _NOBODY)
        depths.append(depth % _DEEPEST)
        stopped.setdefault((sent.cls, _node(sent.peer)), place)
    return leaders


def _ends(link: str, peer: str, direction: str, sender: str) -> tuple[str, str]:
    """Return the sender of a pause, and the paused end."""
    other = peer or f"peer of {link}"
    match direction:
        case "in":
            return other, link
        case "out":
            return link, other
        case _:
            return f"{sender} at {link}", other


def _node(end: str) -> str:
    """Return the node of an interface. An end known only by its peer or MAC address is its own node."""
    node, colon, interface = end.partition(":")
    return node if colon and " " not in end and ":" not in interface else end
