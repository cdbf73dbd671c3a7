"""The live page: the player's drawing, plots and time line, with an empty run that ``live.js`` fills.

Its Content-Security-Policy only runs the page's own script, which may only connect to the server of the page.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from lab import __version__
from lab.model.draw.svg import draw_svg
from lab.report.page import PLAYER_SCRIPTS, asset, embedded, filled, script_hash, script_of
from lab.report.playback import PLAYED, described, plots_of, received_plot

if TYPE_CHECKING:
    from lab.model.topology import Topology

LIVE_SCRIPTS: Final = (*PLAYER_SCRIPTS, "live_now.js", "live.js")
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {script}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def live_page(topology: Topology, name: str, hz: float, time: str) -> tuple[bytes, str]:
    """Return the page of a running fabric and its Content-Security-Policy. ``time`` is that of its seconds."""
    script = script_of(LIVE_SCRIPTS)
    clock = f'<span class="chip">{escape(time)} time</span>' if time else ""
    page = filled(
        "live.html",
        name=escape(name),
        version=__version__,
        chips=f'<span class="chip">fabric {escape(name)}</span>{clock}<span class="chip">{hz:g} samples/s</span>',
        player=filled("player.html", svg=draw_svg(topology, named=True), more=asset("live_now.html")),
        style=asset("uPlot.min.css") + asset("page.css") + asset("live.css"),
        script=script,
        data=embedded(empty_run(topology, name, hz)),
    )
    return page.encode(), _POLICY.format(script=script_hash(script))


def empty_run(topology: Topology, name: str, hz: float) -> dict[str, Any]:
    """Return the input of the player's scripts for a run without samples, in the form of ``playback``."""
    lists = (
        "phases", "faults", "moments", "standstills", "steps", "commands", "packets", "times", "jobs", "requests",
    )  # fmt: skip
    return {
        **{key: [] for key in lists},
        **{key: {} for key in ("pauses", "ports", "again", "sessions", "limits", "links")},
        "live": True,
        "name": name,
        "hz": hz,
        "seconds": 0,
        "opening": 0,
        "received": {**received_plot(), "devices": {}},
        "rates": {str(end): link.rate for link in topology.links for end in link.ends},
        "hosts": [node.name for node in topology.hosts],
        "measures": {measure.name: described(measure) for measure in PLAYED},
        "plots": list(plots_of(limited=True)),
    }
