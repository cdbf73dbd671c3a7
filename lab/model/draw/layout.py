"""The layout of a picture: tiers are rows, leaves are columns with their hosts below, pods are frames.

All coordinates are in SVG user units, x to the right and y down. The roomiest style that is not too wide is used:
small fabrics show addresses, and a fabric of a hundred nodes still shows every name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from lab.model.draw.shapes import STYLES, Box, PictureLayout, PodFrame, Style, Wire
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lab.model.topology import Link, Node, Topology

LETTER: Final = 0.66
"""The average width of a letter in font sizes, an upper bound for common sans-serif fonts."""
LONGEST_NAME: Final = 18
"""Letters of a name that are shown; the tooltip has the full name."""
_HEADER: Final = 74
_MARGIN: Final = 26


@dataclass
class _Column:
    leaf: Node
    hosts: list[Node]
    width: float
    middle: float = 0.0


@dataclass
class _Group:
    """The columns of one pod, and the hosts with links to several of its leaves."""

    pod: int
    columns: list[_Column]
    shared_hosts: list[Node]
    left: float = 0.0
    right: float = 0.0


def lay_out(topology: Topology, detail: Callable[[Node], str]) -> PictureLayout:
    """Return the layout; ``detail`` returns the second line of a card, for its width."""
    for style in STYLES:
        layout = _Arranger(topology, style, detail).arrange()
        if layout.width <= style.widest:
            break
    return layout


class _Arranger:
    def __init__(self, topology: Topology, style: Style, detail: Callable[[Node], str]) -> None:
        self._topology = topology
        self._style = style
        self._detail = detail
        self._layout = PictureLayout(style)
        self._width_of = {role: self._card_width(role) for role in Role}
        if style.stacked:
            indent = 2 * style.trunk
            self._width_of[Role.LEAF] = max(self._width_of[Role.LEAF], self._width_of[Role.HOST] + indent)
            self._width_of[Role.HOST] = self._width_of[Role.LEAF] - indent
        self._below_leaf = _leaf_of_single_homed(topology)
        self._groups = self._group()

    def arrange(self) -> PictureLayout:
        right = self._place_columns()
        self._place_rows(right)
        self._place_wires()
        self._layout.width = right + _MARGIN
        return self._layout

    def _card_width(self, role: Role) -> float:
        style, nodes = self._style, self._topology.having(role)
        least = style.switch_width if role.is_switch else style.host_width
        names = max((len(node.name[:LONGEST_NAME]) for node in nodes), default=0) * style.font * LETTER
        details = max((len(self._detail(node)) for node in nodes), default=0) * (style.font - 3) * LETTER
        return max(least, names + style.padding, details + style.padding if style.details else 0)

    def _group(self) -> list[_Group]:
        single = self._below_leaf
        children: dict[str, list[Node]] = {}
        for host in self._topology.hosts:
            if host.name in single:
                children.setdefault(single[host.name], []).append(host)
        groups = []
        leaves = sorted(self._topology.having(Role.LEAF), key=lambda node: node.pod)
        for pod, members in groupby(leaves, key=lambda node: node.pod):
            columns = [self._column(leaf, children.get(leaf.name, [])) for leaf in members]
            groups.append(_Group(pod, columns, []))
        by_leaf = {column.leaf.name: group for group in groups for column in group.columns}
        for host in self._topology.hosts:
            if host.name not in single:
                link = self._topology.links_of(host.name)[0]
                by_leaf[link.other(link.end_at(host.name)).node].shared_hosts.append(host)
        return groups

    def _column(self, leaf: Node, hosts: list[Node]) -> _Column:
        host, gap = self._width_of[Role.HOST], self._style.host_gap
        row = len(hosts) * (host + gap) - gap if hosts and not self._style.stacked else 0
        return _Column(leaf, hosts, max(self._width_of[Role.LEAF], row))

    def _place_columns(self) -> float:
        """Set the middle of every column, from the left; return the right edge."""
        gap, x = self._style.gap, self._layout.left
        for group in self._groups:
            padding = gap * 0.6 if group.pod else 0
            needed = sum(column.width + gap for column in group.columns)
            available = max(needed, self._least_width(group))
            extra = (available - needed) / len(group.columns)
            group.left = x
            x += padding
            for column in group.columns:
                column.middle = x + (column.width + gap + extra) / 2
                x += column.width + gap + extra
            x += padding
            group.right = x
            x += gap if group.pod else 0
        return max(x, self._layout.left + self._widest_top_row())

    def _least_width(self, group: _Group) -> float:
        style = self._style
        spines = sum(group.pod > 0 and node.pod == group.pod for node in self._topology.having(Role.SPINE))
        hosts = len(group.shared_hosts) * (self._width_of[Role.HOST] + style.host_gap)
        return max(spines * (self._width_of[Role.SPINE] + style.gap), hosts)

    def _widest_top_row(self) -> float:
        return max(
            len(self._topology.having(role)) * (self._width_of[role] + self._style.gap)
            for role in (Role.SPINE, Role.SUPERSPINE)
        )

    def _place_rows(self, right: float) -> None:
        layout, style = self._layout, self._style
        rise = min(max(78, (right - layout.left) * 0.12), 260)
        y: float = _HEADER + (14 if any(group.pod for group in self._groups) else 0)
        for role in (Role.SUPERSPINE, Role.SPINE):
            if nodes := self._topology.having(role):
                self._place_switches(role, nodes, right, y)
                layout.rows.append((role, y + style.switch_height / 2))
                y += style.switch_height + rise
        for column in (column for group in self._groups for column in group.columns):
            self._put(column.leaf, column.middle, y)
        layout.rows.append((Role.LEAF, y + style.switch_height / 2))
        y += style.switch_height
        bottom = self._place_hosts(y, rise)
        self._place_frames(bottom)
        layout.height = bottom + (84 if self._layout.frames else 62)

    def _put(self, node: Node, middle: float, y: float) -> None:
        width = self._width_of[node.role]
        height = self._style.switch_height if node.role.is_switch else self._style.host_height
        self._layout.boxes[node.name] = Box(node=node, x=middle - width / 2, y=y, width=width, height=height)

    def _place_switches(self, role: Role, nodes: Sequence[Node], right: float, y: float) -> None:
        spans = {group.pod: (group.left, group.right) for group in self._groups if group.pod}
        everything = (self._layout.left, right)
        for pod, members in groupby(sorted(nodes, key=lambda node: node.pod), key=lambda node: node.pod):
            self._spread(list(members), spans.get(pod, everything) if role is Role.SPINE else everything, y)

    def _spread(self, nodes: Sequence[Node], span: tuple[float, float], y: float) -> None:
        step = (span[1] - span[0]) / len(nodes)
        for place, node in enumerate(nodes):
            self._put(node, span[0] + (place + 0.5) * step, y)

    def _place_hosts(self, y: float, rise: float) -> float:
        """Place hosts below ``y``; return the bottom edge."""
        style, bottom, first = self._style, y, y
        for group in self._groups:
            for column in group.columns:
                if column.hosts:
                    first = y + (14 if style.stacked else 44)
                    bottom = max(bottom, self._place_below(column, first))
            if group.shared_hosts:
                first = y + rise
                self._spread(group.shared_hosts, (group.left, group.right), first)
                bottom = max(bottom, first + style.host_height)
        if self._topology.hosts:
            self._layout.rows.append((Role.HOST, first + style.host_height / 2))
        return bottom

    def _place_below(self, column: _Column, y: float) -> float:
        style, width = self._style, self._width_of[Role.HOST]
        if style.stacked:
            indented = column.middle + (self._width_of[Role.LEAF] - width) / 2
            for place, host in enumerate(column.hosts):
                self._put(host, indented, y + place * (style.host_height + style.host_gap))
            return y + len(column.hosts) * (style.host_height + style.host_gap) - style.host_gap
        step = width + style.host_gap
        start = column.middle - (len(column.hosts) - 1) * step / 2
        for place, host in enumerate(column.hosts):
            self._put(host, start + place * step, y)
        return y + style.host_height

    def _place_frames(self, bottom: float) -> None:
        for group in self._groups:
            members = [box for box in self._layout.boxes.values() if box.node.pod == group.pod]
            if group.pod:
                top = min(box.y for box in members) - 14
                height = bottom - top + 30
                self._layout.frames.append(
                    PodFrame(pod=group.pod, x=group.left, y=top, width=group.right - group.left, height=height)
                )

    def _place_wires(self) -> None:
        ends = _fan_out(self._topology, self._layout.boxes)
        for number, link in enumerate(self._topology.links):
            lower, upper = _ordered(self._topology, link)
            low, high = self._layout.boxes[lower], self._layout.boxes[upper]
            if self._style.stacked and self._below_leaf.get(lower) == upper:
                start = (low.x, low.y + low.height / 2)
                self._layout.wires.append(
                    Wire(link, start, (high.x + self._style.trunk, high.y + high.height), elbow=True)
                )
            else:
                bottom_of_high = (ends[number, upper], high.y + high.height)
                self._layout.wires.append(Wire(link, (ends[number, lower], low.y), bottom_of_high))


def _ordered(topology: Topology, link: Link) -> tuple[str, str]:
    lower, upper = topology.lower_first(link)
    return lower.node, upper.node


def _leaf_of_single_homed(topology: Topology) -> dict[str, str]:
    found = {}
    for host in topology.hosts:
        leaves = {link.other(link.end_at(host.name)).node for link in topology.links_of(host.name)}
        if len(leaves) == 1:
            found[host.name] = leaves.pop()
    return found


def _fan_out(topology: Topology, boxes: dict[str, Box]) -> dict[tuple[int, str], float]:
    """Return the x at which each link meets its nodes' cards: side by side, in an order that avoids crossings."""
    edges: dict[tuple[str, bool], list[tuple[float, int]]] = {}
    for number, link in enumerate(topology.links):
        lower, upper = _ordered(topology, link)
        edges.setdefault((lower, True), []).append((boxes[upper].middle, number))
        edges.setdefault((upper, False), []).append((boxes[lower].middle, number))
    return {
        (number, name): x for (name, _), wires in edges.items() for number, x in _along(boxes[name], sorted(wires))
    }


def _along(box: Box, wires: Sequence[tuple[float, int]]) -> Iterable[tuple[int, float]]:
    usable = box.width * 0.76
    step = min(usable / len(wires), 22)
    start = box.middle - step * (len(wires) - 1) / 2
    return ((number, start + place * step) for place, (_, number) in enumerate(wires))
