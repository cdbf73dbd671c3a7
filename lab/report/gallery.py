"""A page with many runs: a card for each, with its outcome and a picture of its timeline."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lab import __version__
from lab.report.page import asset, filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.report.run_facts import ReportFacts

_WIDTH: Final = 300
_BOX: Final = '<div class="card panel">', "</div>"
"""The opening and closing tags of a card without a link."""
_ROWS: Final = 8
"""Maximum number of ports whose standstills are drawn."""


def write_gallery(runs: Sequence[tuple[ReportFacts, str]], unread: Mapping[str, str]) -> str:
    """Return the page: runs with the paths of their pages, and unreadable recordings with the reason.

    Runs are sorted by difficulty, the easiest first, then by scenario and time. Runs without a difficulty come last.
    """
    ordered = sorted(runs, key=lambda each: (_level(each[0]) or 9, each[0].told.scenario or "~", each[0].began))
    return filled(
        "gallery.html",
        style=asset("page.css") + asset("gallery.css"),
        count=f"{len(runs)} runs" if len(runs) != 1 else "1 run",
        cards="\n".join(run_card(facts, page=page) for facts, page in ordered),
        unread="".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in unread.items()),
        version=__version__,
    )


def _level(facts: ReportFacts) -> int:
    """Return the difficulty of finding a run's root cause; 0 if the scenario has none."""
    return facts.told.answer.level if facts.told.answer else 0


def run_card(facts: ReportFacts, *, page: str = "", heading: str = "") -> str:
    """Return the card of a run: its outcome, title and timeline, with a link to its page if it has one."""
    outcome = facts.told.outcome or "not judged"
    kind = f" {facts.told.outcome}" if facts.told.outcome in {"pass", "fail", "unknown"} else ""
    rank = f'<span class="chip">level {_level(facts)}</span>' if _level(facts) else ""
    when = next((each.text for each in facts.story.sentences if each.word == "When"), "")
    begin, end = (f'<a class="card panel" href="{escape(quote(page))}">', "</a>") if page else _BOX
    return (
        f"{begin}"
        f'<p class="chips"><span class="chip{kind}">{escape(outcome)}</span>'
        f'<span class="chip">{escape(facts.told.scenario or "no scenario")}</span>'
        f"{rank}</p>"
        f"<h2>{escape(heading or facts.story.title or facts.name)}</h2>"
        f'<p class="when">{escape(when)}</p>'
        f"{''.join(_strip(facts))}"
        f'<p class="facts">{escape(facts.fabric)} · {facts.seconds:.1f} s · {escape(facts.began[:16])}</p>{end}'
    )


def _strip(facts: ReportFacts) -> Iterator[str]:
    """Yield the picture of a run's timeline: phases, faults above them, standstills below."""
    scale = _WIDTH / facts.seconds if facts.seconds > 0 else 0.0
    yield f'<svg class="strip" viewBox="0 0 {_WIDTH} 46" preserveAspectRatio="none" aria-hidden="true">'
    for phase in facts.phases:
        yield _bar("phase", (phase.start * scale, phase.end * scale), 6, 10)
    for fault in (each for each in facts.faults if each.story):
        end = facts.seconds if fault.end is None else fault.end
        yield _bar("fault", (fault.start * scale, end * scale), 0, 4)
    for row, pause in enumerate(facts.standstills[:_ROWS]):
        yield _bar("pause", (pause.start * scale, pause.end * scale), 19 + 3.4 * row, 2.4)
    yield "</svg>"


def _bar(kind: str, span: tuple[float, float], y: float, height: float) -> str:
    x, width = max(0.0, span[0]), max(1.0, span[1] - span[0])
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="1"/>'
