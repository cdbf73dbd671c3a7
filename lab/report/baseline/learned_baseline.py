"""Normal ranges of values, and deviations from them, by robust statistics: medians and median absolute deviations.

A recording has a median and a spread for each value. The normal value is the median of the recordings' medians. The
spread combines the recordings' own spreads with that of their medians. So one bad recording among three or more
changes little, however long it is.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from lab.errors import UsageError
from lab.report.baseline.window_values import MEASURED, ValueKey, window_values
from lab.result_files import write_result
from lab.telemetry.read.measure_unit import MeasureUnit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.report.baseline.window_values import WindowValues
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

VERSION: Final = 1
_TO_SIGMA: Final = 1.4826
"""A median absolute deviation times this is the standard deviation of a normal distribution."""
_MEAN_TO_SIGMA: Final = math.sqrt(math.pi / 2)
"""The same for a mean absolute deviation."""
_RELATIVE: Final = 0.05
"""The least spread, as a share of the normal value: no load is steadier."""
_SHARE: Final = 0.01
_PACKET: Final = 1500
_TIMING: Final = 0.001
"""Seconds by which processes are late without a fault."""
_TOGETHER: Final = 2
"""Windows in a row that deviate: a change in the middle of a window is no deviation of that window alone."""
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a baseline file."""

_Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class NormalRange:
    """The normal value of a measure at one place, and its spread. Values for which both are 0 are left out."""

    owner: Literal["port", "device", "node", "job", "qp"]
    of: str
    """A port, an RDMA device, a node, a job, or a queue pair as ``h1:eth1 ib_write_bw #1``."""
    priority: int | None
    """The priority, queue or priority group; null if the measure has none."""
    measure: str
    unit: str
    normal: _Finite
    """The median, in the unit."""
    spread: _Finite
    """A robust standard deviation, in the unit."""

    @property
    def key(self) -> ValueKey:
        """The value that it is about."""
        return ValueKey(self.owner, self.of, self.priority, self.measure)


@dataclass(frozen=True, slots=True)
class LearnedBaseline:
    """Normal ranges of a fabric."""

    version: int
    fabric: str
    every: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """The length of a window in seconds."""
    runs: list[str]
    """The recordings from which it was learned."""
    objects: list[str]
    """The ports, devices, nodes, jobs and queue pairs of these recordings."""
    ranges: list[NormalRange]


@dataclass(frozen=True, slots=True)
class BaselineDeviation:
    """A value of a recording that is not normal."""

    owner: str
    of: str
    """A port, an RDMA device, a node, a job or a queue pair."""
    priority: int | None
    """The priority, queue or priority group; null if the measure has none."""
    measure: str
    unit: str
    normal: float
    value: float
    """The value in the window that deviates most."""
    deviations: float
    """Distance of that value from the normal one, in spreads; negative if it is less."""
    since: float
    """The start of the first window that deviates, in seconds since the recording began."""
    windows: int
    """Number of windows that deviate."""

    @property
    def words(self) -> str:
        """The value, the normal one, and the distance in spreads."""
        title, unit = MEASURED[self.owner, self.measure].title, MeasureUnit(self.unit)
        usual = f"{unit.write(self.value)}, normally {unit.write(self.normal)}"
        return f"{title}: {usual} ({self.deviations:+.1f} spreads)"


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The deviations of a recording, and its objects without normal values."""

    deviations: list[BaselineDeviation]
    """The largest one first."""
    unknown: list[str]
    """Ports, devices, nodes, jobs and queue pairs that the baseline does not have. They are not judged."""


def learn(recordings: Sequence[Recording], every: float, phase: str = "") -> LearnedBaseline:
    """Return the normal ranges of recordings of one fabric. UsageError if they are of several fabrics."""
    fabrics = sorted({recording.fabric for recording in recordings})
    if len(fabrics) != 1:
        raise UsageError(f"the recordings are of fabrics {', '.join(fabrics)}", "learn from recordings of one fabric")
    runs = [window_values(recording, recording.window(phase), every) for recording in recordings]
    keys = sorted({key for run in runs for key in run.values}, key=_order)
    return LearnedBaseline(
        version=VERSION,
        fabric=fabrics[0],
        every=every,
        runs=[recording.name for recording in recordings],
        objects=sorted({name for run in runs for name in run.objects}),
        ranges=[found for key in keys if (found := _range(key, _with_object(runs, key))).normal or found.spread],
    )


def compare(
    baseline: LearnedBaseline, recording: Recording, limit: float, window: RecordingPhase
) -> BaselineComparison:
    """Compare a part of a recording with a baseline: a value deviates by ``limit`` spreads or more.

    It must deviate in two windows in a row, or have been always 0 in the baseline. UsageError for a recording of
    another fabric.
    """
    if recording.fabric != baseline.fabric:
        raise UsageError(
            f"{recording.name} is of fabric {recording.fabric or '(unknown)'}, and the baseline of {baseline.fabric}",
            "learn a baseline from recordings of this fabric",
        )
    run = window_values(recording, window, baseline.every)
    known = {each.key: each for each in baseline.ranges}
    objects = frozenset(baseline.objects)
    found = [
        deviation
        for key in known.keys() | run.values.keys()
        if key.of in objects
        and run.has(key)
        and (deviation := _deviation(key, known.get(key), run, baseline.every, limit))
    ]
    found.sort(key=lambda each: (-abs(each.deviations), each.since, each.of, each.priority or 0, each.measure))
    return BaselineComparison(found, sorted(run.objects - objects))


def save(baseline: LearnedBaseline, file: Path) -> None:
    """Write a baseline. UsageError if the file cannot be written."""
    write_result(file, json.dumps(asdict(baseline), indent=1) + "\n", "name another file with -o")


def load(file: Path) -> LearnedBaseline:
    """Read a baseline, which is not trusted. UsageError if it is none."""
    remedy = "rocelab baseline learn RUN... -o FILE writes one"
    try:
        if file.stat().st_size > _LARGEST:
            raise UsageError(f"{file} has more than {_LARGEST >> 20} MiB", remedy)
        found = TypeAdapter(LearnedBaseline).validate_json(file.read_bytes(), strict=True)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", remedy) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file} is no baseline: {where or 'the file'}: {first['msg']}", remedy) from error
    if found.version != VERSION:
        raise UsageError(f"{file} is a baseline of version {found.version}", "learn it again with this rocelab")
    return found


def _order(key: ValueKey) -> tuple[str, int, str]:
    return key.of, -1 if key.priority is None else key.priority, key.measure


def _with_object(runs: Sequence[WindowValues], key: ValueKey) -> list[WindowValues]:
    """Return the recordings that have the object of a value: in others, the value is not 0 but absent."""
    return [run for run in runs if run.has(key)]


def _range(key: ValueKey, runs: Sequence[WindowValues]) -> NormalRange:
    medians, spreads = zip(*(_median_and_spread_within(run.of(key)) for run in runs), strict=True)
    normal, between = _median_and_spread(np.array(medians))
    within = float(np.median(spreads))
    return NormalRange(
        owner=key.owner,  # type: ignore[arg-type]
        of=key.of,
        priority=key.priority,
        measure=key.measure,
        unit=str(_unit(key)),
        normal=normal,
        spread=math.hypot(within, between),
    )


def _median_and_spread(values: NDArray[np.float64]) -> tuple[float, float]:
    median = float(np.median(values))
    return median, _TO_SIGMA * float(np.median(np.abs(values - median)))


def _median_and_spread_within(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median and the spread of a recording. Windows without a value (NaN) do not count.

    If a value differs from its median in few windows, its median absolute deviation is 0. The mean one is not.
    """
    known = values[~np.isnan(values)]
    median, spread = _median_and_spread(known)
    return median, spread or _MEAN_TO_SIGMA * float(np.mean(np.abs(known - median)))


def _deviation(
    key: ValueKey, known: NormalRange | None, run: WindowValues, every: float, limit: float
) -> BaselineDeviation | None:
    if (key.owner, key.measure) not in MEASURED:
        return None
    normal, spread = (known.normal, known.spread) if known else (0.0, 0.0)
    values = run.of(key)
    scores = (values - normal) / max(spread, _RELATIVE * abs(normal), _least_spread(_unit(key), every))
    outside = np.abs(scores) >= limit
    lasting = _lasting(outside) if normal or spread else outside
    if not lasting.any():
        return None
    worst = int(np.argmax(np.where(lasting, np.abs(scores), 0.0)))
    return BaselineDeviation(
        owner=key.owner,
        of=key.of,
        priority=key.priority,
        measure=key.measure,
        unit=str(_unit(key)),
        normal=normal,
        value=float(values[worst]),
        deviations=float(scores[worst]),
        since=run.starts[int(np.argmax(lasting))],
        windows=int(lasting.sum()),
    )


def _lasting(outside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the windows that are outside together with at least one neighbour."""
    lasting = np.zeros_like(outside)
    for start, end in _stretches(outside):
        lasting[start:end] = end - start >= _TOGETHER
    return lasting


def _stretches(outside: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], outside, [False]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _unit(key: ValueKey) -> MeasureUnit:
    return MEASURED[key.owner, key.measure].unit


def _least_spread(unit: MeasureUnit, every: float) -> float:
    """Return the least spread of a unit: a packet or event in a window, 1500 bytes, 1% of the time, 1 ms."""
    match unit:
        case MeasureUnit.SHARE:
            return _SHARE
        case MeasureUnit.BYTES:
            return _PACKET
        case MeasureUnit.BITS_PER_SECOND:
            return 8 * _PACKET / every
        case MeasureUnit.SECONDS:
            return _TIMING
    return 1 / every
