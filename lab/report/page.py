"""The report as one HTML file: a player of the run and its root cause analysis, without external resources.

Recordings are untrusted. Their text reaches the page in three ways that exclude markup: as escaped HTML, as
Markdown with HTML disabled, and as JSON without ``<``, ``>`` and ``&``, which the script inserts as text. In
addition, the page's Content-Security-Policy only runs the page's own script, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt

from lab import __version__
from lab.model.draw.svg import draw_svg
from lab.report.markdown import write_markdown
from lab.report.playback import playback
from lab.telemetry.store.recording_folder import damage_as_invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.report.run_facts import ReportFacts
    from lab.telemetry.read.recording import Recording

_ASSETS: Final = Path(__file__).parent / "assets"
PLAYER_SCRIPTS: Final = ("model.js", "fabric.js", "plots.js", "job.js", "player.js")
_HOLE: Final = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def write_page(recording: Recording, facts: ReportFacts) -> str:
    """Return the HTML file. InvalidInput if the recording is damaged."""
    with damage_as_invalid(recording.folder.path):
        return _page_of(recording, facts)


def _page_of(recording: Recording, facts: ReportFacts) -> str:
    played = playback(recording, facts)
    script = script_of(PLAYER_SCRIPTS)
    every = f"This recording is long: one of {played['every']} samples is played." if played["every"] > 1 else ""
    warning = f'<p class="warning">This recording is incomplete: {escape(facts.why)}.</p>' if facts.why else ""
    return filled(
        "page.html",
        title=escape(facts.story.title or facts.name),
        name=escape(facts.name),
        version=__version__,
        chips="".join(_chips(facts)),
        warning=warning,
        sampling=every,
        player=filled("player.html", svg=draw_svg(recording.topology, named=True), more=""),
        analysis=to_html(write_markdown(facts)),
        style=asset("uPlot.min.css") + asset("page.css") + asset("job.css"),
        script=script,
        script_hash=script_hash(script),
        data=embedded(played),
    )


def asset(name: str) -> str:
    """Return the content of an asset file."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def filled(template: str, **parts: str) -> str:
    """Fill each hole of a template once; inserted text is not searched for holes."""
    return _HOLE.sub(lambda hole: parts[hole[1]], asset(template))


def embedded(data: Any) -> str:
    """Return JSON that is safe within a script element, whatever its strings contain."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def to_html(markdown: str) -> str:
    """Convert Markdown to HTML; HTML in it is escaped, and wide tables scroll."""
    drawn: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return drawn.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


def script_of(names: Iterable[str]) -> str:
    """Return the page's script: uPlot, then these assets in one function."""
    own = "\n".join(asset(name) for name in names)
    return f'{asset("uPlot.iife.min.js")}\n(() => {{\n"use strict";\n{own}\n}})();\n'


def script_hash(script: str) -> str:
    """Return the source expression of a script for the Content-Security-Policy (CSP level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _chips(facts: ReportFacts) -> Iterator[str]:
    if facts.told.outcome:
        yield f'<span class="chip {escape(facts.told.outcome)}">{escape(facts.told.outcome)}</span>'
    for text in (
        facts.told.scenario,
        f"fabric {facts.fabric}",
        f"{facts.seconds:.1f} s",
        facts.began.replace("T", " ")[:16],
        f"{facts.host.get('time', '')} time".strip() if facts.host.get("time") else "",
    ):
        if text:
            yield f'<span class="chip">{escape(text)}</span>'
