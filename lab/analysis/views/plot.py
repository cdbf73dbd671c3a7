"""Plot an analysis: the goodput of each flow, events that disturbed it, and pauses, on one time axis.

matplotlib takes long to import: import this module only to plot.
"""

from __future__ import annotations

import warnings
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from lab.units import format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowOverTime, OverTime, PauseOverTime

Kind: TypeAlias = Literal["png", "svg"]
MOST_FLOWS: Final = 8
"""Flows that are drawn: those with the most goodput."""
MOST_PORTS: Final = 12
"""Paused ports and classes that are drawn: those that were paused longest."""
_BLUE: Final = "#0072b2"  # colours that colour-blind people can distinguish (Okabe and Ito)
_EVENTS: Final = {
    "marked": ("marked CE", "#e69f00"),
    "resent": ("sent again", "#d55e00"),
    "naks": ("NAKs back", "#cc79a7"),
    "cnps": ("CNPs back", "#009e73"),
}
"""Events that are drawn above a flow's goodput: attribute, label and colour."""
_PAUSED: Final = "#7a3e9d"
_STYLE: Final[dict[RcKeyType, Any]] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rocelab",  # the same facts give the same file
    "text.parse_math": False,  # names come from the capture
}
_LANE: Final = 0.1
"""Height of a row of events, as a share of the goodput's height."""


def can_plot(facts: AnalysisFacts) -> bool:
    """Return whether there is anything to draw: a flow with goodput, or a pause of known length."""
    return bool(_flows(facts.over_time) or _ports(facts.over_time))


def plot(facts: AnalysisFacts, output: IO[bytes], kind: Kind) -> None:
    """Draw the flows and pauses of an analysis."""
    flows, ports = _flows(facts.over_time), _ports(facts.over_time)
    events = [event for event in _EVENTS if any(getattr(flow, event) for flow in flows)]
    heights = [1.0] * len(flows) + [0.25 + 0.18 * len(ports)] * bool(ports)
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters missing from the fonts are drawn as boxes
        figure = Figure(figsize=(10, 1.1 + 1.15 * sum(heights)), layout="constrained")
        strips = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        peak = max((max(flow.goodput) for flow in flows), default=0.0)
        for axes, flow in zip(strips, flows, strict=False):
            _draw_flow(axes, flow, facts.over_time.interval, peak)
            _draw_events(axes, [(getattr(flow, event), _EVENTS[event][1]) for event in events], facts, peak)
        if ports:
            _draw_ports(strips[-1], ports, facts.over_time.interval)
        _label(figure, strips[-1], facts, events)
        figure.savefig(output, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def _flows(over_time: OverTime) -> list[FlowOverTime]:
    carrying = [flow for flow in over_time.flows if flow.goodput]
    return sorted(carrying, key=lambda flow: -sum(flow.goodput))[:MOST_FLOWS]


def _ports(over_time: OverTime) -> list[PauseOverTime]:
    return sorted(over_time.pauses, key=lambda port: -sum(port.paused))[:MOST_PORTS]


def _draw_flow(axes: Axes, flow: FlowOverTime, interval: float, peak: float) -> None:
    edges = interval * np.arange(len(flow.goodput) + 1)
    axes.stairs(flow.goodput, edges, fill=True, color=_BLUE, alpha=0.25)
    axes.stairs(flow.goodput, edges, color=_BLUE, linewidth=0.9)
    axes.set_yticks([tick for tick in MaxNLocator(3).tick_values(0, peak) if tick <= peak])
    axes.yaxis.set_major_formatter(EngFormatter("b/s"))
    axes.tick_params(labelsize=8)
    tunnel = "" if flow.vni is None else f" in VNI {flow.vni}"
    peak_drawn = format_rate(max(flow.goodput))
    name = f"{flow.src} to {flow.dst} QP {flow.qp:#x}{tunnel} at {flow.link}, peak {peak_drawn}"
    axes.set_title(name, loc="left", fontsize=9, pad=3)


def _draw_events(axes: Axes, lanes: Sequence[tuple[tuple[int, ...], str]], facts: AnalysisFacts, peak: float) -> None:
    """Draw each kind of event in a lane above the goodput, at the same height in every strip."""
    height = _LANE * peak
    bottom = peak + height / 4
    for amounts, color in lanes:
        if amounts:
            _draw_lane(axes, amounts, facts.over_time.interval, (bottom, height, color))
        bottom += height * 1.2
    axes.set_ylim(0, bottom)


def _draw_lane(axes: Axes, amounts: Sequence[float], interval: float, place: tuple[float, float, str]) -> None:
    """Draw a row of boxes, one for each interval with events; the opacity shows the amount."""
    bottom, height, color = place
    most = max(amounts)
    boxes = [(index, amount / most) for index, amount in enumerate(amounts) if amount]
    axes.broken_barh(
        [(index * interval, interval) for index, _ in boxes],
        (bottom, height),
        facecolors=[(color, 0.3 + 0.7 * share) for _, share in boxes],
        linewidth=0,
    )


def _draw_ports(axes: Axes, ports: Sequence[PauseOverTime], interval: float) -> None:
    for row, port in enumerate(ports):
        _draw_lane(axes, port.paused, interval, (row - 0.35, 0.7, _PAUSED))
    names = [
        f"{port.link} {port.direction or port.sender} {'all' if port.cls is None else f'class {port.cls}'}"
        for port in ports
    ]
    axes.set_yticks(range(len(ports)), names, fontsize=8)
    axes.set_ylim(len(ports) - 0.4, -0.6)
    axes.set_title("paused by flow control", loc="left", fontsize=9, pad=3)


def _label(figure: Figure, lowest: Axes, facts: AnalysisFacts, events: Sequence[str]) -> None:
    """Draw the title, the legend and the time axis, which all strips share."""
    lowest.set_xlim(0, facts.over_time.interval * (int(facts.seconds / facts.over_time.interval) + 1))
    lowest.xaxis.set_major_formatter(EngFormatter("s"))
    lowest.set_xlabel(f"since the first packet, in steps of {format_time(facts.over_time.interval)}")
    carrying = sum(bool(flow.goodput) for flow in facts.over_time.flows)
    some = f", {MOST_FLOWS} of {carrying} flows" if carrying > MOST_FLOWS else ""
    figure.suptitle(
        f"Goodput in {PurePath(facts.file).name}{some}", x=0.01, ha="left", fontsize=11, fontweight="bold"
    )
    if events:
        patches = [Patch(color=color, label=words) for words, color in (_EVENTS[event] for event in events)]
        figure.legend(handles=patches, loc="upper right", ncols=len(patches), frameon=False, fontsize=8)
