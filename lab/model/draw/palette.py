"""The colours of a picture, and the stylesheet that makes them follow the reader's light or dark theme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.topology import Topology

TIERS: Final = {
    Role.SUPERSPINE: ("#f5f3ff", "#8b5cf6"),
    Role.SPINE: ("#eff6ff", "#3b82f6"),
    Role.LEAF: ("#f0fdfa", "#14b8a6"),
    Role.HOST: ("#fffbeb", "#f59e0b"),
}
"""Fill and line of a node's card, on light ground."""
RAILS: Final = ("#1d4ed8", "#65a30d", "#c026d3", "#92400e", "#0e7490", "#7e22ce", "#059669", "#f472b6")
"""Colours of rails or tenants, repeated after eight; none resembles the line of a tier, or a link marked red."""
_OF_THE_NAME: Final = {
    "blue": RAILS[0], "green": RAILS[1], "brown": RAILS[3], "teal": RAILS[4], "purple": RAILS[5], "pink": RAILS[7],
    "red": "#dc2626", "orange": "#ea580c",
}  # fmt: skip
INK: Final = "#0f172a"
"""Text on a card, on light ground."""

_DARK_TIERS: Final = {
    Role.SUPERSPINE: ("#2e1065", "#a78bfa"),
    Role.SPINE: ("#172554", "#60a5fa"),
    Role.LEAF: ("#042f2e", "#2dd4bf"),
    Role.HOST: ("#331b02", "#fbbf24"),
}
_LIGHT_AREAS: Final = {"sheet": ("#ffffff", "#e2e8f0"), "frame": ("#f8fafc", "#cbd5e1")}
_DARK_AREAS: Final = {"sheet": ("#0d1117", "#30363d"), "frame": ("#161b22", "#30363d")}
_LIGHT_TEXTS: Final = {"ink": INK, "muted": "#64748b", "odd-text": "#e11d48"}
_DARK_TEXTS: Final = {"ink": "#f1f5f9", "muted": "#94a3b8", "odd-text": "#fb7185"}
_LIGHT_LINES: Final = {"wire": "#94a3b8", "odd": "#e11d48"}
_DARK_LINES: Final = {"wire": "#64748b", "odd": "#fb7185"}


def tenant_colours(topology: Topology) -> Mapping[str, str]:
    """Return a colour for each tenant: that of its name (red, blue, ...), or the next unused one."""
    tenants = [tenant.name for tenant in topology.overlay.tenants] if topology.overlay else []
    named = {tenant: _OF_THE_NAME[tenant] for tenant in tenants if tenant in _OF_THE_NAME}
    free = [colour for colour in RAILS if colour not in named.values()] or list(RAILS)
    others = [tenant for tenant in tenants if tenant not in named]
    return {**named, **{tenant: free[place % len(free)] for place, tenant in enumerate(others)}}


def light_colours() -> Mapping[str, tuple[str, str]]:
    """Return fill and line of each CSS class on light ground, for renderers without stylesheets."""
    areas = _LIGHT_AREAS | {str(role): pair for role, pair in TIERS.items()}
    found = {**areas, **{f"{name}-text": (line, "none") for name, (_, line) in areas.items()}}
    found |= {name: (colour, "none") for name, colour in _LIGHT_TEXTS.items()}
    return found | {name: ("none", colour) for name, colour in _LIGHT_LINES.items()}


def _rules(areas: Mapping[str, tuple[str, str]], texts: Mapping[str, str], lines: Mapping[str, str]) -> Iterator[str]:
    for name, (fill, line) in areas.items():
        yield f".{name} {{ fill: {fill}; stroke: {line} }} .{name}-text {{ fill: {line} }}"
    for name, colour in texts.items():
        yield f".{name} {{ fill: {colour} }}"
    for name, colour in lines.items():
        yield f".{name} {{ fill: none; stroke: {colour} }}"


def _stylesheet() -> Iterator[str]:
    # Plain values only: librsvg and other renderers without custom properties draw the light theme.
    yield "text { stroke: none } .wire, .odd { stroke-linecap: round }"
    yield from _rules(_LIGHT_AREAS | {str(role): pair for role, pair in TIERS.items()}, _LIGHT_TEXTS, _LIGHT_LINES)
    yield "@media (prefers-color-scheme: dark) {"
    yield from _rules(_DARK_AREAS | {str(role): pair for role, pair in _DARK_TIERS.items()}, _DARK_TEXTS, _DARK_LINES)
    yield "}"


STYLESHEET: Final = "\n".join(_stylesheet())
"""CSS classes: sheet, frame, a role, wire, odd (shapes); ink, muted, odd-text, a role with -text (texts)."""
