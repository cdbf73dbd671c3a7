"""The picture of ``svg`` as PNG or PDF, drawn by matplotlib from the same document.

matplotlib takes long to import: import this module only to draw.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.etree import ElementTree as ET

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch
from matplotlib.path import Path

from lab.model.draw.palette import light_colours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes

_SVG: Final = "{http://www.w3.org/2000/svg}"
_POINTS: Final = 72
"""Points of an inch: at this resolution, a point of the figure is a user unit of the SVG."""
_SHARPNESS: Final = 2
"""Pixels of a PNG for each user unit."""
_MOST_PIXELS: Final = 16_000
"""The most pixels of one side; the PNG of a huge fabric is scaled down."""
_MEDIUM: Final = 500
"""Weight of a font above which text is bold: the font that comes with matplotlib has two."""
_STEP: Final = re.compile(r"([MCVH])([^MCVH]*)")
_STYLE: Final[dict[Any, Any]] = {"font.family": "DejaVu Sans", "text.parse_math": False, "pdf.fonttype": 42}


def render(svg: str, kind: Literal["png", "pdf"]) -> bytes:
    """Return the document of ``draw_svg`` as a picture on light ground."""
    tree = ET.fromstring(svg)  # noqa: S314 - our own text
    width, height = float(tree.get("width", "1")), float(tree.get("height", "1"))
    with rc_context(_STYLE):
        figure = Figure(figsize=(width / _POINTS, height / _POINTS), dpi=_POINTS, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        for order, element in enumerate(tree.iter()):
            _draw(axes, element, order)
        output = BytesIO()
        scale = min(_SHARPNESS, _MOST_PIXELS / max(width, height))
        metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
        figure.savefig(output, format=kind, dpi=_POINTS * scale, metadata=metadata)
    return output.getvalue()


def _draw(axes: Axes, element: ET.Element, order: int) -> None:
    """Draw one element above the previous ones."""
    kind = element.tag.removeprefix(_SVG)
    if kind == "text":
        axes.text(
            _number(element, "x"),
            _number(element, "y"),
            element.text or "",
            color=_colours(element)[0],
            fontsize=_number(element, "font-size"),
            fontweight="bold" if int(element.get("font-weight", "400")) > _MEDIUM else "normal",
            ha="center" if element.get("text-anchor") == "middle" else "left",
            va="baseline",
            zorder=order,
        )
    elif kind in _SHAPES:
        fill, line = _colours(element)
        patch = _SHAPES[kind](element)
        patch.set(
            facecolor=fill,
            edgecolor=line,
            linewidth=_number(element, "stroke-width", 1.0) if line != "none" else 0.0,
            linestyle=(0, (4, 4)) if element.get("stroke-dasharray") else "solid",
            alpha=_number(element, "opacity", 1.0),
            zorder=order,
        )
        if isinstance(patch, PathPatch):
            patch.set_capstyle("round")
        axes.add_patch(patch)


def _number(element: ET.Element, name: str, otherwise: float = 0.0) -> float:
    return float(element.get(name, otherwise))


def _colours(element: ET.Element) -> tuple[str, str]:
    """Return fill and line of an element: its own attributes override its class."""
    fill, line = light_colours().get(element.get("class", ""), ("none", "none"))
    style = dict(part.split(": ") for part in element.get("style", "").split("; ") if part)
    return element.get("fill", fill), style.get("stroke", line)


def _rectangle(element: ET.Element) -> FancyBboxPatch:
    corner = (_number(element, "x"), _number(element, "y"))
    rounding = f"round,pad=0,rounding_size={_number(element, 'rx')}"
    return FancyBboxPatch(corner, _number(element, "width"), _number(element, "height"), boxstyle=rounding)


def _circle(element: ET.Element) -> Circle:
    return Circle((_number(element, "cx"), _number(element, "cy")), _number(element, "r"))


def _path(element: ET.Element) -> PathPatch:
    points = list(_points(element.get("d", "")))
    return PathPatch(Path([point for point, _ in points], [code for _, code in points]))


def _points(steps: str) -> Iterator[tuple[tuple[float, float], Any]]:
    """Yield the points of a path of the steps M, C, V and H, with matplotlib's codes."""
    x = y = 0.0
    for step, arguments in _STEP.findall(steps):
        numbers = [float(number) for number in arguments.split()]
        if step == "V":
            numbers = [x, *numbers]
        elif step == "H":
            numbers = [*numbers, y]
        code = {"M": Path.MOVETO, "C": Path.CURVE4}.get(step, Path.LINETO)
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            yield (x, y), code


_SHAPES: Final[Mapping[str, Any]] = {"rect": _rectangle, "circle": _circle, "path": _path}
