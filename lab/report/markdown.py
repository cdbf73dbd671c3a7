"""The root cause analysis in Markdown. Each value names its series; text from the recording is escaped."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from lab.report import qp_limits
from lab.report.diagnosis_part import diagnosed
from lab.report.job.request_tables import requests_of_transfers
from lab.report.job.step_tables import training_steps
from lab.report.markdown_text import block, code, plain, table
from lab.report.run_facts import named
from lab.report.run_figures import DEVICE_FIGURES, PORT_FIGURES
from lab.telemetry.read import measures
from lab.units import counted, format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.qp_limits import ReportedQp
    from lab.report.run_facts import Moved, ReportFacts
    from lab.report.run_figures import ReportFigure
    from lab.telemetry.read.window_measure import Measure

_ROWS: Final = 8
_MOMENTS: Final = 60
_SHOWN: Final = 8000
"""Maximum characters of a command's output; the recording has the rest."""


def write_markdown(facts: ReportFacts) -> str:
    """Return the document."""
    parts = (
        _heading, _broke, diagnosed, _timeline, _seen, _evidence, _checks, _figures, _cause, _ruled, _fix, _verified,
        _prevention, _unknown,
    )  # fmt: skip
    return "\n".join(line for part in parts for line in part(facts)) + "\n"


def _heading(facts: ReportFacts) -> Iterator[str]:
    yield f"# {plain(facts.story.title or facts.name)}"
    yield ""
    if facts.why:
        yield f"> **This recording is incomplete**: {plain(facts.why)}."
        yield ""
    machine = " ".join(facts.host.get(name, "") for name in ("kernel", "machine")).strip()
    time = facts.host.get("time", "")
    yield from table(("", ""), (
        ("recording", code(facts.name)),
        ("fabric", code(facts.fabric)),
        ("scenario", code(facts.told.scenario) if facts.told.scenario else "none"),
        ("outcome", facts.told.outcome or "not judged"),
        ("when", plain(facts.began)),
        ("length", f"{facts.seconds:.1f} s, {counted(facts.samples, 'sample')} at {facts.hz:g} Hz"),
        ("machine", plain(f"kernel {machine}, {time} time" if machine else "not known")),
    ))  # fmt: skip


def _broke(facts: ReportFacts) -> Iterator[str]:
    yield "## What broke"
    yield ""
    for fault in facts.faults:
        says = f": {plain(fault.says)}" if fault.says else ""
        how = "Injected" if fault.story else "Set up before the first phase,"
        until = f"healed at {fault.end:.3f} s" if fault.end is not None else "never healed"
        yield f"**{code(named(fault))}**{says}. {how} at {fault.start:.3f} s, {until} (`truth/truth.jsonl`)."
        yield ""
    if not facts.faults:
        yield "Nothing was injected by `rocelab fault`: `truth/truth.jsonl` is empty."
        yield ""
    for sentence in facts.story.sentences:
        yield f"- **{sentence.word}** {plain(sentence.text)}"
    if facts.story.figure:
        yield ""
        yield from block(facts.story.figure)
    if facts.story.numbers:
        yield ""
        yield from block(facts.story.numbers)
    yield ""


def _timeline(facts: ReportFacts) -> Iterator[str]:
    yield "## Timeline"
    yield ""
    shown = facts.timeline[:_MOMENTS]
    yield from table(
        ("second", "event", "source"),
        ((f"{moment.at:.3f}", plain(moment.what), code(moment.source)) for moment in shown),
    )
    if len(facts.timeline) > len(shown):
        yield f"{len(facts.timeline) - len(shown)} more are in the recording."
    if facts.counts:
        told = ", ".join(f"{number} {plain(kind)}" for kind, number in sorted(facts.counts.items()))
        yield f"Events in all: {told}."
    yield ""


def _seen(facts: ReportFacts) -> Iterator[str]:
    yield "## How it was seen"
    yield ""
    lines = list(seen(facts))
    yield from (f"- {plain(line)}" for line in lines)
    if not lines:
        yield "No port was stopped, and no counter of marks, drops or retransmissions grew."
    yield ""


def seen(facts: ReportFacts) -> Iterator[str]:
    """Yield a line for each standout fact: standstills in order, drops, marks, retransmissions."""
    began = facts.broken_from
    since = "after the injection began" if any(fault.story for fault in facts.faults) else "into the recording"
    for pause in (each for each in facts.standstills if each.start >= began):
        length = "to the end" if pause.open else f"for {pause.seconds:.3f} s"
        yield (
            f"{pause.port} was stopped in priority {pause.priority} {length},"
            f" from {(pause.start - began) * 1000:.1f} ms {since} (events paused, resumed, expired)"
        )
    for measure in (measures.DROPPED, measures.ECN_MARKED, *DEVICE_FIGURES):
        yield from _grown(facts, measure)


def _grown(facts: ReportFacts, measure: Measure) -> Iterator[str]:
    """Yield the largest rise of a count above the first phase; in a run without phases, its largest growth."""
    if len(facts.phases) == 1:
        whole = max((row[0] for row in rows_of(facts, measure)), key=lambda each: each.value, default=None)
        if whole is not None and whole.value > 0:
            yield f"{whole.of}: {whole.series} grew by {whole.value:.0f}"
        return
    rises = [(each.value - row[0].value, row[0], each) for row in rows_of(facts, measure) for each in row[1:]]
    rise, first, most = max(rises, key=lambda each: each[0], default=(0.0, None, None))
    if most is not None and first is not None and rise > 0:
        yield (
            f"{most.of}: {most.series} grew by {most.value:.0f} in phase {most.phase},"
            f" by {first.value:.0f} in phase {first.phase}"
        )


def _evidence(facts: ReportFacts) -> Iterator[str]:
    yield "## Evidence"
    yield ""
    if not facts.commands:
        yield "No command was recorded. These commands show the counters of the run:"
        yield ""
        judge = "\nrocelab scenario judge RUN" if facts.told.scenario else ""
        yield from block(f"rocelab record show RUN{judge}")
    for command in facts.commands:
        yield from block(f"{typed(command.node, command.argv)}\n{_shown(command.stdout)}{_shown(command.stderr)}")
        at = (command.ns - facts.start_ns) / 1e9
        yield f"Exit code {command.exit_code} (`commands.jsonl`), begun at {at:.3f} s."
        yield ""
    if facts.packets:
        yield from _packets(facts)
    yield ""


def _packets(facts: ReportFacts) -> Iterator[str]:
    yield "### Packets"
    yield ""
    yield "The first captured packet of each kind; `rocelab dissect RUN/FILE --packet N` decodes it."
    yield ""
    rows = (
        (f"{each.at:.6f}", plain(each.what), code(each.link), f"{code(each.file)}, {each.number}", code(each.line))
        for each in facts.packets
    )
    yield from table(("second", "what", "where", "file, packet", "packet"), rows)


def typed(node: str, argv: Sequence[str]) -> str:
    """Return the command line for repeating a command."""
    return f"$ rocelab exec {shlex.quote(node)} -- {shlex.join(argv)}" if node else f"$ {shlex.join(argv)}"


def _shown(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}\n... {len(text) - _SHOWN} more characters are in commands.jsonl\n"


def _checks(facts: ReportFacts) -> Iterator[str]:
    yield "## Checks"
    yield ""
    if not facts.told.checks:
        yield f"None: {plain(facts.told.why or 'no scenario made this recording')}."
        yield ""
        return
    rows = (
        (plain(check.name), f"**{check.outcome}**", plain(check.evidence), plain(check.meaning))
        for check in facts.told.checks
    )
    yield from table(("check", "verdict", "evidence", "condition"), rows)


def _figures(facts: ReportFacts) -> Iterator[str]:
    yield "## Figures"
    yield ""
    yield from training_steps(facts.jobs)
    yield from requests_of_transfers(facts.requests)
    if facts.transfers:
        yield from _transfers(facts)
    for measure in (*PORT_FIGURES, *DEVICE_FIGURES):
        rows = rows_of(facts, measure)
        if rows:
            yield from _figure_table(facts, measure, rows)
    if facts.limited:
        yield from _limits(facts)


def _limits(facts: ReportFacts) -> Iterator[str]:
    yield "### QP rate limits"
    yield ""
    left = len(facts.limited) - _ROWS
    more = f"; {counted(left, 'QP')} with higher means left out" if left > 0 else ""
    yield (
        "Rates to which congestion control limited QPs: means by phase, the line rate while a QP is not limited"
        f" (`{qp_limits.SOURCE}`{more})."
    )
    yield ""
    columns = ("QP", "peer", "line rate", "CNPs", "lowest rate", *(plain(phase.name) for phase in facts.phases))
    yield from table(columns, map(_limit, facts.limited[:_ROWS]))


def _limit(qp: ReportedQp) -> list[str]:
    means = (format_rate(round(mean)) for mean in qp.means.values())
    return [plain(qp.qp), plain(qp.peer), format_rate(qp.line_rate), str(qp.cnps), format_rate(qp.lowest), *means]


def _transfers(facts: ReportFacts) -> Iterator[str]:
    yield "### Transfers"
    yield ""
    yield "Payload of each pair, and the time from the first message to the last (`transfers.jsonl`)."
    yield ""
    columns = ("pair", "verb", "phase", "from", "took", "payload", "goodput", "message time: median, peak")
    yield from table(columns, (_transfer(each) for each in facts.transfers))


def _transfer(moved: Moved) -> list[str]:
    messages = [format_time(each) for each in (moved.message_median, moved.message_max) if each is not None]
    numbers = format_time(moved.seconds), format_size(moved.bytes), format_rate(round(moved.goodput_bps))
    where = plain(moved.pair), plain(moved.verb), plain(moved.phase), f"{moved.start:.3f} s"
    return [*where, *numbers, ", ".join(messages)]


def rows_of(facts: ReportFacts, measure: Measure) -> list[list[ReportFigure]]:
    """Return a row for each port or device with values of a measure, the highest first; a row has a value a phase."""
    rows: dict[tuple[str, int | None], list[ReportFigure]] = {}
    for figure in facts.figures:
        if figure.kind == measure.name:
            rows.setdefault((figure.of, figure.priority), []).append(figure)
    return sorted(rows.values(), key=lambda row: -max(figure.value for figure in row))


def _figure_table(facts: ReportFacts, measure: Measure, rows: list[list[ReportFigure]]) -> Iterator[str]:
    yield f"### {measure.heading}"
    yield ""
    more = f"; {counted(len(rows) - _ROWS, 'row')} with lower values omitted" if len(rows) > _ROWS else ""
    where = f"`counters/{measure.table(rows[0][0].priority)}.parquet`"
    yield f"{measure.meaning[:1].upper()}{measure.meaning[1:]} ({where}{more})."
    yield ""
    columns = ("port", "series", *(plain(phase.name) for phase in facts.phases))
    yield from table(
        columns,
        (
            [plain(row[0].of), code(row[0].series), *(measure.format(each.value) for each in row)]
            for row in rows[:_ROWS]
        ),
    )


def _cause(facts: ReportFacts) -> Iterator[str]:
    """Yield the scenario's own root cause; it was not diagnosed."""
    answer = facts.told.answer
    if answer is None:
        return
    yield "## Root cause"
    yield ""
    yield f"**{plain(answer.cause)}**, at {code(answer.where)}: {plain(answer.because)}"
    yield ""


def _ruled(facts: ReportFacts) -> Iterator[str]:
    yield "## What was ruled out"
    yield ""
    yield from table(
        ("not", "because", "source"),
        ((plain(each.what), plain(each.because), code(each.source)) for each in facts.ruled),
    )
    if not facts.ruled:
        yield "Nothing: the figures contain evidence for each of the causes that they can exclude."
        yield ""


def _prevention(facts: ReportFacts) -> Iterator[str]:
    if facts.told.answer is None and not facts.alarms:
        return
    yield "## Prevention"
    yield ""
    if facts.told.answer is not None:
        yield f"- {plain(facts.told.answer.prevention)}"
    yield from (f"- {plain(line)}." for line in facts.alarms)
    yield ""


def _fix(facts: ReportFacts) -> Iterator[str]:
    yield "## Fix"
    yield ""
    whens = [sentence for sentence in facts.story.sentences if sentence.word == "When"]
    healed = [fault for fault in facts.faults if fault.end is not None]
    for fault in healed:
        yield f"{code(f'{fault.kind} at {fault.place}')} was healed at {fault.end:.3f} s (`truth/truth.jsonl`)."
    if healed and whens:
        yield f"In the story: {plain(whens[-1].text)}."
    advised = [cause.fix for cause in facts.diagnosis.causes if cause.fault] if facts.diagnosis else []
    if facts.told.answer is not None:
        yield f"{plain(facts.told.answer.fix)}"
    elif advised:
        yield f"The diagnosis recommends: {plain('; '.join(advised))}"
    elif not healed:
        yield "No fault was repaired in this run."
    yield ""


def _verified(facts: ReportFacts) -> Iterator[str]:
    yield "## Verification"
    yield ""
    rows = [row for row in rows_of(facts, measures.TX_RATE) if row[0].value]
    if len(facts.phases) < 2 or not rows:
        yield "The recording has fewer than two phases to compare."
        yield ""
        return
    first, last = facts.phases[0].name, facts.phases[-1].name
    yield f"Rates of the busiest ports in the last phase, {plain(last)}, and in the first, {plain(first)}:"
    yield ""
    yield from table(("port", "series", plain(first), plain(last), "of the first"), (
        (plain(row[0].of), code(row[0].series), *(measures.TX_RATE.format(each.value) for each in (row[0], row[-1])),
         f"{row[-1].value / row[0].value:.0%}")
        for row in rows[:_ROWS]
    ))  # fmt: skip


def _unknown(facts: ReportFacts) -> Iterator[str]:
    yield "## What stays unknown"
    yield ""
    yield from (f"- {plain(line)}" for line in facts.unknowns)
    yield "- The switch chip, link rates and the NIC are emulated: `rocelab docs emulation`."
