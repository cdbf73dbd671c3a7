"""A fabric as SVG: readable in a README, in light and in dark, with every number in tooltips."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from lab.model.addressing import plan_addresses
from lab.model.draw.layout import LONGEST_NAME, lay_out
from lab.model.draw.palette import RAILS, STYLESHEET, tenant_colours
from lab.model.draw.rails import rails_of_ends
from lab.model.output.fabric_summary import format_ratio, summarise
from lab.model.overlay.tenancy import tenants_of_ends
from lab.model.topology import Role
from lab.units import counted, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.addressing import NodePlan
    from lab.model.draw.shapes import Box, PictureLayout, Wire
    from lab.model.topology import Link, Node, Topology

_FONT: Final = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_MAX_LABELS: Final = 24
_LEFT: Final = 28.0
_LEGEND_ROW: Final = 18
_LEGEND_LETTER: Final = 6.6
"""Width of a letter of the legend, about."""
_CROWD: Final = 120
"""Links from which straight lines are easier to read than curves."""

_TIER_NAMES: Final = {
    Role.SUPERSPINE: "super-spines",
    Role.SPINE: "spines",
    Role.LEAF: "leaves",
    Role.HOST: "hosts",
}


def draw_svg(topology: Topology, *, named: bool = False) -> str:
    """An SVG document of the whole fabric.

    ``named`` is for a page that changes it: cards have ``data-node``, wires ``data-lower`` and ``data-upper``, the
    ports at their ends, and go from the upper to the lower one.
    """
    return "\n".join(_Drawing(topology, named).parts()) + "\n"


class _Drawing:
    def __init__(self, topology: Topology, named: bool) -> None:
        self._topology = topology
        self._named = named
        self._plans = plan_addresses(topology)
        self._summary = summarise(topology)
        self._layout: PictureLayout = lay_out(topology, self._detail)
        self._usual = _usual_links(topology)
        usual_rates = [rate for _, rate, _, _ in self._usual]
        self._slowest = min(usual_rates, default=1)
        self._crowded = len(topology.links) > _CROWD
        self._tenants = tenants_of_ends(topology)
        self._colours = tenant_colours(topology)
        self._rails = {} if self._tenants else rails_of_ends(topology)
        self._legend_rows = _wrapped(list(self._legend_items()), self._layout.width - 2 * _LEFT)

    def parts(self) -> Iterator[str]:
        """The document, element by element."""
        more = _LEGEND_ROW * max(0, len(self._legend_rows) - 1)
        width, height = round(self._layout.width), round(self._layout.height + more)
        name = escape(self._topology.name)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(self._topology.name)}'
            f' font-family="{_FONT}">'
        )
        yield f"<title>{name}</title>"
        yield f"<style>{STYLESHEET}</style>"
        yield f'<rect class="sheet" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="14"/>'
        yield from self._heading()
        yield from self._frames()
        yield from self._wires()
        yield from self._gutter()
        for box in self._layout.boxes.values():
            yield from self._card(box)
        yield from self._labels()
        yield from self._legend()
        yield "</svg>"

    def _detail(self, node: Node) -> str:
        plan: NodePlan = self._plans[node.name]
        if node.role.is_switch:
            return "" if plan.loopback4 is None else str(plan.loopback4)
        addresses = [str(port.address.ip) for port in plan.interfaces.values() if port.address is not None]
        return addresses[0] if len(addresses) == 1 else f"{len(addresses)} NICs"

    def _heading(self) -> Iterator[str]:
        facts = self._summary
        parts = [counted(facts.nodes, "node"), counted(facts.links, "link")]
        ratios = [
            f"{format_ratio(tier.oversubscription)} at the {_TIER_NAMES[tier.role]}"
            for tier in reversed(facts.tiers)
            if tier.oversubscription
        ]
        if ratios:
            parts.append(f"oversubscription {', '.join(ratios)}")
        if facts.bisection_bandwidth:
            parts.append(f"bisection {format_rate(facts.bisection_bandwidth)}")
        yield f'<text class="ink" x="28" y="38" font-size="19" font-weight="700">{escape(facts.name)}</text>'
        yield f'<text class="muted" x="28" y="58" font-size="12">{escape(" · ".join(parts))}</text>'

    def _frames(self) -> Iterator[str]:
        for frame in self._layout.frames:
            yield (
                f'<rect class="frame" x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}"'
                f' height="{frame.height:.1f}" rx="12" stroke-dasharray="4 4"/>'
            )
            yield (
                f'<text class="muted" x="{frame.x + 12:.1f}" y="{frame.y + frame.height - 10:.1f}" font-size="11"'
                f' font-weight="600">pod {frame.pod}</text>'
            )

    def _wires(self) -> Iterator[str]:
        opacity = 0.9 if len(self._topology.links) <= 40 else 0.7 if not self._crowded else 0.5
        for wire in self._layout.wires:
            if _kind(self._topology, wire.link) in self._usual:
                yield self._wire(wire, "wire", opacity)
        for wire in self._odd_wires():
            yield self._wire(wire, "odd", 1)

    def _odd_wires(self) -> list[Wire]:
        return [wire for wire in self._layout.wires if _kind(self._topology, wire.link) not in self._usual]

    def _wire(self, wire: Wire, css: str, opacity: float) -> str:
        link, (x1, y1), (x2, y2) = wire.link, wire.lower, wire.upper
        width = min(max(1.4 * (link.rate / self._slowest) ** 0.3, 1), 4)
        bend = (y1 - y2) * (0.05 if self._crowded else 0.42)
        shape = (
            f"V{y1:.1f} H{x1:.1f}"
            if wire.elbow
            else f"C{x2:.1f} {y2 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
        )
        colour = (self._tenant_colour(link) or self._rail_colour(link)) if css == "wire" else ""
        return (
            f'<path class="{css}" d="M{x2:.1f} {y2:.1f} {shape}" stroke-width="{width:.2f}" opacity="{opacity}"'
            f"{colour}{self._names_of(link)}><title>{escape(_describe(link))}</title></path>"
        )

    def _names_of(self, link: Link) -> str:
        if not self._named:
            return ""
        lower, upper = self._topology.lower_first(link)
        return f" data-lower={quoteattr(str(lower))} data-upper={quoteattr(str(upper))}"

    def _tenant_colour(self, link: Link) -> str:
        tenant = next((self._tenants[end] for end in link.ends if end in self._tenants), "")
        return f' style="stroke: {self._colours[tenant]}"' if tenant else ""

    def _rail_colour(self, link: Link) -> str:
        rail = next((self._rails[end] for end in link.ends if end in self._rails), 0)
        return f' style="stroke: {RAILS[(rail - 1) % len(RAILS)]}"' if rail else ""

    def _labels(self) -> Iterator[str]:
        for wire in self._odd_wires()[:_MAX_LABELS] if self._layout.style.details else []:
            yield from self._label(wire)

    def _label(self, wire: Wire) -> Iterator[str]:
        (x1, y1), (x2, y2) = wire.lower, wire.upper
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        if wire.elbow:
            x, y = x1 + 45, y1 + self._layout.style.host_height / 2
        text = format_rate(wire.link.rate) + (f", {format_time(wire.link.delay)}" if wire.link.delay else "")
        half = len(text) * 3.4 + 6
        yield f'<rect class="sheet" x="{x - half:.1f}" y="{y - 9:.1f}" width="{2 * half:.1f}" height="18" rx="9"/>'
        yield (
            f'<text class="odd-text" x="{x:.1f}" y="{y + 3.5:.1f}" font-size="10" font-weight="600"'
            f' text-anchor="middle">{escape(text)}</text>'
        )

    def _card(self, box: Box) -> Iterator[str]:
        node, style, x = box.node, self._layout.style, box.middle
        shown = node.name if len(node.name) <= LONGEST_NAME else node.name[: LONGEST_NAME - 1] + "…"
        baseline = box.y + box.height / 2 + (-2 if style.details else style.font * 0.36)
        name = f" data-node={quoteattr(node.name)}" if self._named else ""
        yield f"<g{name}><title>{escape(self._describe_node(node))}</title>"
        yield (
            f'<rect class="{node.role}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}"'
            f' height="{box.height:.1f}" rx="{min(9, box.height / 4):.1f}" stroke-width="1.5"/>'
        )
        yield (
            f'<text class="ink" x="{x:.1f}" y="{baseline:.1f}" font-size="{style.font}" font-weight="600"'
            f' text-anchor="middle">{escape(shown)}</text>'
        )
        if style.details:
            yield (
                f'<text class="muted" x="{x:.1f}" y="{baseline + style.font + 2:.1f}" font-size="{style.font - 3}"'
                f' text-anchor="middle">{escape(self._detail(node))}</text>'
            )
        if node.rdma:
            radius = 3 if style.details else 2
            right, top = box.x + box.width - radius - 3.5, box.y + radius + 3.5
            yield f'<circle class="host-text" cx="{right:.1f}" cy="{top:.1f}" r="{radius}"/>'
        yield "</g>"

    def _describe_node(self, node: Node) -> str:
        plan = self._plans[node.name]
        lines = [f"{node.name} ({node.role})"]
        if plan.asn:
            lines.append(f"AS {plan.asn}")
        lines += [f"lo {address}" for address in plan.loopbacks]
        lines += [f"{port.name} {port.address}" for port in plan.interfaces.values() if port.address is not None]
        return "\n".join(lines)

    def _gutter(self) -> Iterator[str]:
        tiers = {tier.role: tier for tier in self._summary.tiers}
        for role, y in self._layout.rows:
            tier = tiers[role]
            yield (
                f'<text class="{role}-text" x="28" y="{y:.1f}" font-size="13" font-weight="700">'
                f"{tier.nodes} {_TIER_NAMES[role] if tier.nodes != 1 else role}</text>"
            )
            for place, line in enumerate(self._links_below(role), start=1):
                below = y + 2 + 14 * place
                yield f'<text class="muted" x="28" y="{below:.1f}" font-size="10.5">{escape(line)}</text>'

    def _links_below(self, role: Role) -> list[str]:
        """Return labels of the links down from a tier: its three most common kinds, the most common first."""
        kinds = sorted(
            (kind for kind in self._summary.link_classes if kind.upper is role), key=lambda kind: -kind.links
        )
        return [f"{kind.links} \N{MULTIPLICATION SIGN} {format_rate(kind.rate)} ↓" for kind in kinds[:3]]

    def _legend(self) -> Iterator[str]:
        y = self._layout.height - 26
        for row in self._legend_rows:
            x = _LEFT
            for item in row:
                yield from item.draw(x, y)
                x += item.width
            y += _LEGEND_ROW

    def _legend_items(self) -> Iterator[_LegendItem]:
        if self._summary.rdma_nics:
            yield _LegendItem("RDMA NIC (rxe)", dot=True)
        for tenant in dict.fromkeys(self._tenants.values()):
            yield _LegendItem(tenant, self._colours[tenant])
        rails = sorted(set(self._rails.values()))
        for place, colour in enumerate(RAILS):
            if numbers := [str(rail) for rail in rails if (rail - 1) % len(RAILS) == place]:
                yield _LegendItem(f"rail {', '.join(numbers)}", colour)
        texts = ["thicker is faster"] if len({link.rate for link in self._topology.links}) > 1 else []
        if any(_kind(self._topology, link) not in self._usual for link in self._topology.links):
            texts.append("red and named: unlike the others of its tier")
        if texts:
            yield _LegendItem("; ".join(texts))


@dataclass(frozen=True, slots=True)
class _LegendItem:
    """A word of the legend, behind a bar of ``colour`` or the dot of RDMA NICs."""

    text: str
    colour: str = ""
    dot: bool = False

    @property
    def width(self) -> float:
        """To the next item of the row."""
        return self._indent + len(self.text) * _LEGEND_LETTER + 16

    @property
    def _indent(self) -> float:
        return 18 if self.colour else 14 if self.dot else 0

    def draw(self, x: float, y: float) -> Iterator[str]:
        """With its text's baseline at ``y``."""
        if self.dot:
            yield f'<circle class="host-text" cx="{x + 4:.1f}" cy="{y - 4:.1f}" r="3.5"/>'
        if self.colour:
            yield f'<rect x="{x:.1f}" y="{y - 8:.1f}" width="12" height="4" rx="2" fill="{self.colour}"/>'
        left = x + self._indent
        yield f'<text class="muted" x="{left:.1f}" y="{y:.1f}" font-size="11">{escape(self.text)}</text>'


def _wrapped(items: list[_LegendItem], width: float) -> list[list[_LegendItem]]:
    """The items in rows, each of at most ``width`` where it has more than one."""
    rows: list[list[_LegendItem]] = []
    for item in items:
        if rows and sum(each.width for each in rows[-1]) + item.width <= width:
            rows[-1].append(item)
        else:
            rows.append([item])
    return rows


def _kind(topology: Topology, link: Link) -> tuple[Role, int, int, float]:
    _, upper = topology.lower_first(link)
    return topology.node(upper.node).role, link.rate, link.mtu, link.delay


def _usual_links(topology: Topology) -> set[tuple[Role, int, int, float]]:
    """The most common kind of link below each tier."""
    counts = Counter(_kind(topology, link) for link in topology.links)
    best: dict[Role, tuple[Role, int, int, float]] = {}
    for kind, count in counts.items():
        if kind[0] not in best or count > counts[best[kind[0]]]:
            best[kind[0]] = kind
    return set(best.values())


def _describe(link: Link) -> str:
    delay = f", {format_time(link.delay)} delay" if link.delay else ""
    return f"{link.a} -- {link.b}: {format_rate(link.rate)}, MTU {link.mtu}{delay}"
