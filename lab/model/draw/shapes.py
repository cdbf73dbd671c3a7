"""Elements of a picture: styles, cards, wires, frames. All coordinates are SVG user units, y down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.model.topology import Link, Node, Role

LEFT: Final = 132
"""The left edge of the fabric; the names of the tiers are left of it."""


@dataclass(frozen=True, slots=True)
class Style:
    """How roomy a picture is: smallest sizes of cards, font size, gaps, and whether hosts stack below their leaf.

    ``trunk`` is how far the line that stacked hosts branch off is from the edge of their leaf.
    """

    switch_width: float
    switch_height: float
    host_width: float
    host_height: float
    font: float
    padding: float
    gap: float
    host_gap: float
    trunk: float
    stacked: bool
    details: bool
    widest: float


STYLES: Final = (
    Style(
        switch_width=112,
        switch_height=46,
        host_width=88,
        host_height=40,
        font=13,
        padding=12,
        gap=30,
        host_gap=12,
        trunk=0,
        stacked=False,
        details=True,
        widest=1120,
    ),
    Style(
        switch_width=86,
        switch_height=44,
        host_width=86,
        host_height=38,
        font=12,
        padding=12,
        gap=18,
        host_gap=8,
        trunk=9,
        stacked=True,
        details=True,
        widest=1360,
    ),
    Style(
        switch_width=40,
        switch_height=22,
        host_width=32,
        host_height=17,
        font=9.5,
        padding=5,
        gap=6,
        host_gap=4,
        trunk=6,
        stacked=True,
        details=False,
        widest=float("inf"),
    ),
)


@dataclass(frozen=True, slots=True)
class Box:
    """A node's card; x and y are its top left corner."""

    node: Node
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The x of its centre."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Wire:
    """A link from its lower end to its upper end; an ``elbow`` branches off a trunk beside stacked hosts."""

    link: Link
    lower: tuple[float, float]
    upper: tuple[float, float]
    elbow: bool = False


@dataclass(frozen=True, slots=True)
class PodFrame:
    """The frame of a pod."""

    pod: int
    x: float
    y: float
    width: float
    height: float


@dataclass
class PictureLayout:
    """The geometry of a picture; ``rows`` are the tiers from the top with the y of their middle."""

    style: Style
    width: float = 0.0
    height: float = 0.0
    left: float = float(LEFT)
    boxes: dict[str, Box] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    frames: list[PodFrame] = field(default_factory=list)
    rows: list[tuple[Role, float]] = field(default_factory=list)
