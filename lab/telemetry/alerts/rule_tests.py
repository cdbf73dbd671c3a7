"""Evaluates the alert rules on a recording: a file for ``promtool test rules``, and what promtool reports.

The recording is scraped each ``every`` of its seconds, and promtool takes the scrapes to be ``SCRAPE`` seconds apart.
The rules divide rates by that of the fabric's own clock, as in virtual time, so this changes no result.

promtool compares the firing alerts at each scrape with expected ones. To find out which alerts fire, the file expects
none, and promtool's list of differences is read.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process
from lab.result_files import write_results
from lab.telemetry.alerts.fired_alerts import ALERTMANAGER, DASHBOARD, RULES, FiredAlert
from lab.telemetry.alerts.recorded_metrics import recorded_series, scrape_times
from lab.telemetry.metrics.metric_families import FAMILIES
from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.telemetry.alerts.recorded_metrics import RecordedSeries
    from lab.telemetry.read.recording import Recording

SCRAPE: Final = 15
"""Seconds between two scrapes for which the rules are written."""
MOST_SCRAPES: Final = 2000
_FIRING: Final = 'ALERTS{alertstate="firing"}'
_META: Final = frozenset({"__name__", "alertname", "alertstate"})
_AT: Final = re.compile(r"time: (?P<time>(?:\d+[hms])+),")
_SAMPLE: Final = re.compile(r'\{(?P<labels>(?:\w+="(?:[^"\\]|\\.)*"(?:, )?)+)\} 1E\+00')
_LABEL: Final = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')
_UNITS: Final = {"h": 3600, "m": 60, "s": 1}
_TIMEOUT: Final = 300.0


def evaluate(recording: Recording, every: float) -> list[FiredAlert]:
    """Return the alerts that fire, ordered by their first scrape. ``every`` is in seconds.

    UsageError if there are too many scrapes, EnvironmentLacks without promtool.
    """
    return fired_alerts(_rule_tests(recording, every, {}))


def fired_alerts(tests: Mapping[str, Any]) -> list[FiredAlert]:
    """Return the alerts that fire in a file for promtool that expects none. Raises like ``evaluate``."""
    with tempfile.TemporaryDirectory(prefix="rocelab-alerts-") as folder:
        shutil.copy(RULES, folder)
        file = _test_file(Path(folder), "recording")
        file.write_text(_as_text(tests), encoding="utf-8")
        return list(_fired(_promtool(file)))


def export(folder: Path, recordings: Sequence[tuple[Recording, Sequence[FiredAlert]]], every: float) -> list[Path]:
    """Write rules, Alertmanager's configuration, dashboard, and a file for promtool for each recording; return paths.

    The tests expect the given alerts, so that ``promtool test rules`` passes until the rules change. UsageError if
    two recordings have the same name, and so the same file.
    """
    names = [recording.name for recording, _ in recordings]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"several recordings are called {', '.join(twice)}", "export them into folders of their own")
    files: dict[Path, str | bytes] = {
        folder / file.name: file.read_bytes() for file in (RULES, ALERTMANAGER, DASHBOARD)
    }
    for recording, alerts in recordings:
        expected: dict[int, list[FiredAlert]] = {}
        for alert in alerts:
            for scrape in alert.scrapes:
                expected.setdefault(scrape, []).append(alert)
        files[_test_file(folder, recording.name)] = _as_text(_rule_tests(recording, every, expected))
    write_results(files, "name another folder with --export", folders=[folder])
    return [*files]


def _rule_tests(recording: Recording, every: float, expected: Mapping[int, Sequence[FiredAlert]]) -> dict[str, Any]:
    times = scrape_times(recording, every)
    if len(times) > MOST_SCRAPES:
        raise UsageError(
            f"{recording.name} has {len(times)} scrapes, and may have {MOST_SCRAPES}", "choose a longer --every"
        )
    text = RULES.read_text(encoding="utf-8")
    wanted = {family.name for family in FAMILIES if re.search(rf"\b{family.name}\b", text)}
    return rule_tests(recorded_series(recording, times, wanted), len(times), expected)


def rule_tests(
    series: Iterable[RecordedSeries], scrapes: int, expected: Mapping[int, Sequence[FiredAlert]]
) -> dict[str, Any]:
    """Return the content of a file for ``promtool test rules``; ``expected`` has the firing alerts by scrape."""
    return {
        "rule_files": [RULES.name],
        "evaluation_interval": f"{SCRAPE}s",
        "tests": [
            {
                "interval": f"{SCRAPE}s",
                "input_series": [_input(each) for each in series],
                "promql_expr_test": [
                    {
                        "expr": _FIRING,
                        "eval_time": f"{scrape * SCRAPE}s",
                        "exp_samples": [
                            {"labels": _selector("ALERTS", _all_labels(alert)), "value": 1}
                            for alert in expected.get(scrape, ())
                        ],
                    }
                    for scrape in range(scrapes)
                ],
            }
        ],
    }


def _all_labels(alert: FiredAlert) -> dict[str, str]:
    return {"alertname": alert.name, "alertstate": "firing", **alert.labels}


def _input(series: RecordedSeries) -> dict[str, str]:
    pairs = itertools.pairwise((None, *series.values))
    values = " ".join(_absent(earlier) if value is None else repr(value) for earlier, value in pairs)
    return {"series": _selector(series.name, series.labels), "values": values}


def _absent(earlier: float | None) -> str:
    """Return promtool's word for a scrape without the series; Prometheus marks one that disappears as stale."""
    return "_" if earlier is None else "stale"


def _selector(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


def _test_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.test.yml"


def _as_text(tests: Mapping[str, Any]) -> str:
    return yaml.safe_dump(tests, sort_keys=False, width=10**9)


def _promtool(file: Path) -> str:
    """Return the differences that promtool finds; "" if there is none. OperationFailed if it rejects the file."""
    promtool = process.find_tool("promtool", "prometheus")
    done = process.run([promtool, "test", "rules", str(file)], check=False, timeout=_TIMEOUT)
    said = done.stdout + done.stderr
    if done.returncode and "got: " not in said:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        if panics := [line for line in lines if line.startswith("panic:")]:  # so it does if it cannot write
            remedy = f"it needs space in {tempfile.gettempdir()}; set TMPDIR for another folder"
            raise OperationFailed(f"promtool crashed at the test of {file.name}: {printable(panics[0])}", remedy)
        last = lines[-1:]
        raise OperationFailed(f"promtool rejects the test of {file.name}: {printable(' '.join(last))}")
    return said if done.returncode else ""


def _fired(said: str) -> Iterator[FiredAlert]:
    """Yield each alert in promtool's differences, with its scrapes."""
    scrapes: dict[tuple[tuple[str, str], ...], list[int]] = {}
    scrape = 0
    for line in said.splitlines():
        if found := _AT.search(line):
            scrape = sum(int(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)([hms])", found["time"])) // SCRAPE
        for sample in _SAMPLE.finditer(line):
            labels = tuple((name, json.loads(value)) for name, value in _LABEL.findall(sample["labels"]))
            scrapes.setdefault(labels, []).append(scrape)
    for labels, when in sorted(scrapes.items(), key=lambda item: item[1]):
        of = dict(labels)
        rest = {name: value for name, value in of.items() if name not in _META}
        yield FiredAlert(name=of["alertname"], labels=rest, scrapes=tuple(when))
