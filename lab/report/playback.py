"""The player's data: every sample and every pause of a run, lossless, compact enough for one page.

Counters count from the start of the recording. A series is a list of changes: number of samples since the last
change, and difference. Pauses are exact to the microsecond, like events.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane import reductions
from lab.report.job.job_playback import played_jobs
from lab.report.job.request_tables import played_transfers
from lab.report.markdown import typed
from lab.report.mentions import places_in
from lab.report.qp_limits import limits_of
from lab.report.run_facts import named
from lab.report.run_figures import DEVICE_FIGURES, lanes_of
from lab.report.steps import opening_of, steps_of
from lab.telemetry.read import measures
from lab.telemetry.read.followed_sessions import SessionStates
from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.store.session_states import UP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lab.model.topology import Topology
    from lab.report.packet_picks import Packet
    from lab.report.run_facts import ReportFacts
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import Series
    from lab.telemetry.read.window_measure import Measure

_NS: Final = 10**9
_US: Final = 1000
_REPEATED: Final = 10_000_000
"""The age in ns below which the kernel repeats an RDMA device's counters (RDMA_HW_STATS_DEFAULT_LIFESPAN)."""
BUDGET: Final = 5_000_000
"""Limit on bytes of JSON: above it only every second, fourth, ... sample is kept, and the page says so."""
PLAYED: Final = (
    measures.TX_RATE, measures.PAUSED, measures.QUEUE_BYTES, measures.MARK_RATE, measures.DROP_RATE,
)  # fmt: skip
"""Measures of a lossless port's priorities, in the order of the page's plots and port table."""
PLAYED_LINK: Final = (measures.TX_RATE,)
"""Measures of a port of a plain link."""
LIMITS: Final = "limits"
"""The key of the plot of QPs' rate limits."""
_LIMITED: Final = 64
"""Maximum number of QPs with a limit on the page, the most limited first."""
_OUTPUT: Final = 100_000
"""Maximum characters of a command's output on the page."""


def playback(recording: Recording, facts: ReportFacts, budget: int = BUDGET) -> dict[str, Any]:
    """Return the input of the page's script; one of ``every`` samples is kept."""
    every, about = 1, _about(recording.topology, recording, facts)
    while True:
        made = {**about, "every": every, **_counted(recording, every)}
        if len(json.dumps(made)) <= budget or every >= len(recording.samples["ns"]):
            return made
        every *= 2


def _about(topology: Topology, recording: Recording, facts: ReportFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "seconds": facts.seconds,
        "hz": facts.hz,
        "phases": [{"name": phase.name, "start": phase.start, "end": phase.end} for phase in facts.phases],
        "faults": [
            {
                "text": named(fault), "says": fault.says, "start": fault.start, "end": fault.end,
                **places_in(topology, fault.place),
            }
            for fault in facts.faults
            if fault.story
        ],
        "moments": [{"at": moment.at, "what": moment.what} for moment in facts.timeline],
        "standstills": [
            {"port": pause.port, "priority": pause.priority, "start": pause.start, "end": pause.end}
            for pause in facts.standstills
        ],
        "pauses": _pauses(facts),
        "steps": (steps := steps_of(topology, facts)),
        "jobs": played_jobs(facts.jobs),
        "requests": played_transfers(facts.requests),
        "opening": opening_of(facts, steps),
        "commands": list(_commands(recording, facts)),
        "packets": [_packet(each) for each in facts.packets],
        "rates": {str(end): link.rate for link in topology.links for end in link.ends},
        "hosts": [node.name for node in topology.hosts],
        "measures": {measure.name: described(measure) for measure in PLAYED},
        "plots": list(plots_of(bool(facts.limited))),
    }  # fmt: skip


def described(measure: Measure) -> dict[str, Any]:
    """Return a measure's title, and the parameters with which the script computes and writes its values."""
    return {
        "title": measure.title, "reduction": measure.reduction.value, "scale": measure.scale,
        "highest": measure.highest, "steps": measure.unit.steps,
    }  # fmt: skip


def plots_of(limited: bool) -> Iterator[dict[str, Any]]:
    """Yield the plots in order: the key of the data, title, caption and scales."""
    for measure in PLAYED:
        yield {"key": measure.name, "title": measure.heading, "says": measure.meaning, "steps": measure.unit.steps}
    if limited:
        yield {
            "key": LIMITS, "title": "QP rate limits", "steps": MeasureUnit.BITS_PER_SECOND.steps,
            "says": "of the most limited QPs, set by congestion control; the line rate before the first CNP",
        }  # fmt: skip
    yield {
        "key": "again", "title": "RDMA losses and retries", "says": "counted by RDMA devices, per second",
        "steps": MeasureUnit.PACKETS_PER_SECOND.steps,
    }  # fmt: skip
    yield {"key": "sessions", "title": "Sessions", "says": "sessions that are up", "steps": MeasureUnit.EVENTS.steps}


def _pauses(facts: ReportFacts) -> dict[str, dict[str, list[int]]]:
    """Return, by port and priority: µs since the end of the last pause, µs of this pause, and so on."""
    found: dict[str, dict[str, list[int]]] = {}
    ends: dict[tuple[str, int], int] = {}
    for pause in facts.pauses:
        start, end = round(pause.start * 1e6), round(pause.end * 1e6)
        flat = found.setdefault(pause.port, {}).setdefault(str(pause.priority), [])
        flat += [start - ends.get((pause.port, pause.priority), 0), end - start]
        ends[pause.port, pause.priority] = end
    return found


def _commands(recording: Recording, facts: ReportFacts) -> Iterator[dict[str, Any]]:
    """Yield the command that made the run, the commands run in it, and the settings changed."""
    if facts.told.scenario:
        given = "".join(f" --set {name}={value}" for name, value in facts.parameters.items())
        yield {"at": 0.0, "typed": f"rocelab scenario run {facts.told.scenario}{given}", "output": "", "code": None}
    began = recording.clock.start
    for command in facts.commands:
        yield {
            "at": (command.ns - began) / _NS,
            "typed": typed(command.node, command.argv).removeprefix("$ "),
            "output": (command.stdout + command.stderr)[:_OUTPUT],
            "code": command.exit_code,
        }
    for setting in facts.settings:
        yield {"at": setting.at, "typed": setting.what, "output": "", "code": None}


def _packet(packet: Packet) -> dict[str, Any]:
    """Return a packet; each header has fields with name, value and meaning."""
    return {
        "at": packet.at, "what": packet.what, "link": packet.link, "line": packet.line,
        "typed": f"rocelab dissect {packet.file} --packet {packet.number}",
        "headers": [
            {"name": each.name, "why": each.why, "fields": [[of.name, of.value, of.meaning] for of in each.fields]}
            for each in packet.headers
        ],
    }  # fmt: skip


def _counted(recording: Recording, every: int) -> dict[str, Any]:
    total = len(recording.samples["ns"])
    chosen = np.unique(np.append(np.arange(0, total, every), max(total - 1, 0))) if total else np.arange(0)
    times = (recording.samples["ns"][chosen] - recording.clock.start) // _US
    ports: dict[str, dict[str, Any]] = {}
    for port, priority in lanes_of(recording):
        lane = {
            measure.name: changes(recording.port(port).series(measure, priority), chosen)
            for measure in (PLAYED_LINK if priority is None else PLAYED)
        }
        ports.setdefault(port, {})["" if priority is None else str(priority)] = lane
    return {
        "times": _steps(times),
        "ports": ports,
        "received": {**received_plot(), "devices": dict(_received(recording, chosen))},
        "again": dict(_again(recording, chosen)),
        "sessions": dict(_sessions(recording, chosen)),
        LIMITS: dict(_limits(recording, chosen)),
    }


def received_plot() -> dict[str, Any]:
    """Return title and caption of the plot of rates that RDMA devices receive: it replaces that of sent rates."""
    return {"title": measures.RDMA_RX_RATE.heading, "says": measures.RDMA_RX_RATE.meaning}


def _received(recording: Recording, chosen: NDArray[np.int64]) -> Iterator[tuple[str, list[int]]]:
    """Yield the receive rate of each RDMA device that received anything, as a gauge."""
    measure = measures.RDMA_RX_RATE
    for name in recording.devices:
        device = recording.rdma(name)
        if device.counts(measure):
            series = device.series(measure)
            if series.last != series.first:
                rates = device_rates(series, recording.hz) * measure.scale
                yield name, folded(np.round(rates).astype(np.int64)[chosen])


def device_rates(series: Series, hz: float) -> NDArray[np.float64]:
    """Return a device counter's rate per second at each sample, since the last sample at least half a period before.

    The kernel only refreshes a device's counters once they are 10 ms old. A sample taken sooner after another repeats
    its values, so it is treated as taken at the same time. Otherwise rates after it would exceed the link's rate.
    """
    taken = series.ns.astype(np.int64)
    for number in np.flatnonzero(np.diff(taken) < _REPEATED) + 1:
        if taken[number] - taken[number - 1] < _REPEATED:
            taken[number] = taken[number - 1]
    return reductions.lagged_rates(series.values, taken, round(_NS / hz / 2))


def _limits(recording: Recording, chosen: NDArray[np.int64]) -> Iterator[tuple[str, list[int]]]:
    """Yield the rate limit of each limited QP, as a gauge; the QP with the lowest mean first."""
    times = recording.samples["ns"][chosen].astype(np.int64)
    found = [(limit.at(times), limit) for limit in limits_of(recording)]
    for values, limit in sorted(found, key=lambda each: float(each[0].sum()))[:_LIMITED]:
        yield f"{limit.qp} to {limit.peer}", folded(values)


def _again(recording: Recording, chosen: NDArray[np.int64]) -> Iterator[tuple[str, list[int]]]:
    """Yield the loss and retry counters that grew, by device and name."""
    for name in recording.devices:
        device = recording.rdma(name)
        for measure in filter(device.counts, DEVICE_FIGURES):
            series = device.series(measure)
            if series.last != series.first:
                yield f"{name} {measure.series()}", changes(series, chosen)


def _sessions(recording: Recording, chosen: NDArray[np.int64]) -> Iterator[tuple[str, list[int]]]:
    """Yield whether each session, ``leaf1:swp1 bgp``, is up, as a gauge.

    The state in the first event also applies to the time before it.
    """
    told: dict[str, list[tuple[int, bool]]] = {}
    states = SessionStates()
    for event in recording.events(source="routing"):
        changed = states.take(event.kind, event.node, event.interface, event.data)
        for (node, interface, kind), state in changed.items():
            if kind in UP:
                told.setdefault(f"{node}:{interface} {kind}", []).append((event.ns, state == UP[kind]))
    times = recording.samples["ns"][chosen]
    for name, changes_of in told.items():
        moments, up = np.array(changes_of, np.int64).T
        last = np.searchsorted(moments, times, "right") - 1
        yield name, folded(up[np.maximum(last, 0)])


def changes(series: Series, chosen: NDArray[np.int64]) -> list[int]:
    """Encode a series at the chosen samples: samples since the last change, the difference, and so on.

    A counter begins at 0, a gauge at its value.
    """
    values = series.values[chosen].astype(np.int64)
    if not series.gauge and len(values):
        values = values - values[0]
    return folded(values)


def folded(values: NDArray[np.int64]) -> list[int]:
    """Encode values as samples since the last change, the difference, and so on; the value before the first is 0."""
    grown = np.diff(values, prepend=0)
    where = np.flatnonzero(grown)
    return np.stack([np.diff(where, prepend=0), grown[where]], axis=1).ravel().tolist() if len(where) else []


def _steps(times: NDArray[np.int64]) -> list[int]:
    """Return each time as microseconds since the one before."""
    return [int(step) for step in np.diff(times, prepend=0)]
