"""Render a comparison as one HTML file: both timelines, and the changes. It runs no script and loads nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lab import __version__
from lab.report.compare.comparison_markdown import comparison_title, write_comparison
from lab.report.compare.comparison_text import runs_of
from lab.report.gallery import run_card
from lab.report.page import asset, filled, to_html
from lab.report.run_facts import gather

if TYPE_CHECKING:
    from lab.report.compare.comparison import RunComparison


def write_comparison_page(comparison: RunComparison, threshold: float, *, every: bool) -> str:
    """Return the HTML file; ``every`` includes unchanged values. InvalidInput if a recording is damaged."""
    cards = (
        run_card(gather(run.recording, run.told), heading=f"{letter}: {run.label}")
        for letter, run in runs_of(comparison)
    )
    title = comparison_title(comparison)
    return filled(
        "compare.html",
        title=escape(title),
        style=asset("page.css") + asset("gallery.css"),
        cards="\n".join(cards),
        comparison=to_html(write_comparison(comparison, threshold, every=every)),
        version=__version__,
    )
