"""``rocelab alerts``: evaluates the alert rules on recordings, by promtool."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.errors import ExitCode, UsageError
from lab.units import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.telemetry.alerts.fired_alerts import AlertProof, FiredAlert
    from lab.telemetry.read.recording import Recording

_ALERTS: Final = ("alert", "where", "severity", "role", "root", "first", "scrapes")
_PROOF: Final = ("run", "scenario", "cause", "root alerts", "detected", "delay", "false alarms", "root right")
_NO_ALERT: Final = frozenset({"capacity"})
"""Causes that are no fault: a healthy network is loaded beyond its capacity."""
_CAUSES: Final = {
    "link-loss": "gray-loss", "link-mtu": "mtu-black-hole", "pause-storm": "pfc-storm", "udp-filtered": "acl-4791",
}  # fmt: skip
"""The causes of faults that have another name than their cause."""
_SHORTEST: Final = 0.05
_FAULT_PHASES: Final = ("inject", "observe")
_INJECTED: Final = "inject"
"""The word for an injection in the ground truth of a recording, also of faults that a user injects."""


@dataclass(frozen=True)
class _Evaluated:
    recording: Recording
    alerts: list[FiredAlert]
    proof: AlertProof


def alerts(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Recordings: directories, or names.", autocompletion=run_names),
    ] = None,
    every: Annotated[str, typer.Option(help="Time between two scrapes, in the recording's time.")] = "500ms",
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write rules, Alertmanager's configuration, a dashboard, and a file for promtool for each RUN.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate the alert rules on recordings. One RUN: the alerts that fire; several: how good they were.

    promtool evaluates the rules. The injected cause is that of the scenario, or of the fault that was injected during
    the recording. Exit code 1 if an alert fires in the only RUN.
    """
    if not runs and export is None:
        raise UsageError("there is no recording", "rocelab alerts RUN, or --export FOLDER for the rules only")
    seconds = read_value("--every", every, parse_time)
    if seconds < _SHORTEST:
        raise UsageError(f"--every {every} is too short", "choose 50ms or more")
    found = [_evaluated(run, seconds) for run in runs or ()]
    if export is not None:
        written = _exported(export, found, seconds)
        for path in () if as_json else written:
            stdout.print(str(path), highlight=False, soft_wrap=True)
    if as_json:
        print_json([_as_data(each) for each in found])
    elif len(found) == 1:
        _show_alerts(found[0], seconds)
    elif found:
        _show_proofs(found)
    if len(found) == 1 and found[0].alerts:
        raise typer.Exit(ExitCode.FAIL)


def _exported(folder: Path, found: Sequence[_Evaluated], every: float) -> list[Path]:
    from lab.telemetry.alerts import rule_tests  # noqa: PLC0415 - as above

    return rule_tests.export(folder, [(each.recording, each.alerts) for each in found], every)


def _evaluated(run: str, every: float) -> _Evaluated:
    from lab.telemetry.alerts.fired_alerts import prove  # noqa: PLC0415 - as above
    from lab.telemetry.alerts.recorded_metrics import scrape_times  # noqa: PLC0415
    from lab.telemetry.alerts.rule_tests import evaluate  # noqa: PLC0415
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    recording = Recording.open(folder_of(run))
    fired = evaluate(recording, every)
    began = _fault_began(recording)
    times = scrape_times(recording, every)
    fault_at = 0 if began is None else int(times.searchsorted(began, "right"))
    return _Evaluated(recording, fired, prove(fired, _cause_of(recording), fault_at))


def _fault_began(recording: Recording) -> int | None:
    """Return the time of a scenario's fault in ns, or of the first one that a user injected; None without a fault."""
    if _scenario_of(recording):
        names = [name for name in _FAULT_PHASES if name in recording.clock.phases]
        return recording.phase(names[0]).start if names else None
    return next((ns for ns, _ in _injected(recording)), None)


def _scenario_of(recording: Recording) -> str:
    return str(recording.parameters.get("scenario", ""))


def _injected(recording: Recording) -> list[tuple[int, str]]:
    """Return the time in ns and the kind of each fault that was injected, by time; InvalidInput if damaged.

    They are recorded when their injection has ended, which is another order.
    """
    from lab.telemetry.store.recording_folder import read_records  # noqa: PLC0415 - as above

    def parse(line: Mapping[str, Any]) -> tuple[str, int, str]:
        return str(line["did"]), int(line["ns"]), str(line["kind"])

    return sorted((ns, kind) for did, ns, kind in read_records(recording.folder.truth, parse) if did == _INJECTED)


def _cause_of(recording: Recording) -> str:
    """Return the cause that the recorded scenario injects, or that of the first fault that a user injected.

    Return "" without a fault, and if the cause is no fault.
    """
    from lab.scenario import library  # noqa: PLC0415 - as above

    name = _scenario_of(recording)
    if not name:
        kind = next((kind for _, kind in _injected(recording)), "")
        return _CAUSES.get(kind, kind)
    answer = library.find(name).answer if name in library.names() else None
    return "" if answer is None or answer.cause in _NO_ALERT else answer.cause


def _as_data(evaluated: _Evaluated) -> dict[str, Any]:
    from lab.telemetry.alerts.fired_alerts import root_alerts  # noqa: PLC0415 - as above

    roots = root_alerts(evaluated.alerts)
    return {
        "run": evaluated.recording.name,
        "scenario": _scenario_of(evaluated.recording),
        "alerts": [
            {
                "name": alert.name,
                "where": alert.where,
                "labels": dict(alert.labels),
                "root": alert in roots,
                "scrapes": list(alert.scrapes),
            }
            for alert in evaluated.alerts
        ],
        **asdict(evaluated.proof),
    }


def _show_alerts(evaluated: _Evaluated, every: float) -> None:
    from lab.telemetry.alerts.fired_alerts import places_of, root_alerts  # noqa: PLC0415 - as above

    roots = root_alerts(evaluated.alerts)
    rows = [
        (
            alert.name, where, alert.labels.get("severity", ""), alert.labels.get("role", ""),
            "yes" if alert in roots else "", f"{alert.first * every:g} s", len(alert.scrapes),
        )
        for alert, where in zip(evaluated.alerts, places_of(evaluated.alerts), strict=True)
    ]  # fmt: skip
    if rows:
        stdout.print(table(f"alerts of {evaluated.recording.name}, a scrape each {every:g} s", _ALERTS, rows))
    else:
        stdout.print(f"no alert fires in {evaluated.recording.name}", highlight=False, soft_wrap=True)


def _show_proofs(found: list[_Evaluated]) -> None:
    from lab.telemetry.alerts.fired_alerts import root_alerts  # noqa: PLC0415 - as above

    rows = [
        (
            each.recording.name,
            _scenario_of(each.recording),
            each.proof.cause,
            ", ".join(sorted({alert.name for alert in root_alerts(each.alerts)})),
            _yes(each.proof.detected),
            "" if each.proof.delay is None else each.proof.delay,
            each.proof.false_alarms,
            _yes(each.proof.root_right),
        )
        for each in found
    ]
    stdout.print(table("alerts and injected causes; delay in scrapes", _PROOF, rows))


def _yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[value]
