"""What every command answers with ``--json``: one model for each, from which its JSON Schema is made. Names stay."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter

from lab.cli.answers import (
    analysis,
    comparisons,
    diagnoses,
    fabric,
    faults,
    machine,
    packets,
    ports,
    recordings,
    reports,
    scenarios,
    traffic,
)

ANSWERS: Final[dict[str, Any]] = {
    "error": machine.ErrorAnswer,
    "doctor": machine.Doctor,
    "topology show": fabric.TopologyShow,
    "up": fabric.Up,
    "adopt": fabric.Adopted,
    "ls": list[fabric.ListedFabric],
    "status": fabric.Status,
    "status --evpn": fabric.StatusEvpn,
    "inspect": fabric.Inspect,
    "path": fabric.Paths,
    "rdma bw": traffic.RdmaBw,
    "rdma lat": traffic.RdmaLat,
    "rdma show": traffic.RdmaShow,
    "counters": ports.Counters,
    "counters --names": list[ports.NamedCounter],
    "congestion": list[ports.CongestionRoot],
    "qos show": ports.QosShow,
    "qos events": list[ports.PortEventAnswer],
    "qos presets": list[ports.PresetAnswer],
    "qos presets --diff": list[ports.PresetDifference],
    "qos plan": ports.QosPlan,
    "expect": traffic.Expect,
    "fault ls": list[faults.FaultEntry],
    "fault ls --kinds": list[faults.FaultKind],
    "fault show": faults.FaultKind,
    "fault inject": faults.FaultEntry | faults.FaultRun,
    "fault heal": list[faults.FaultEntry],
    "examples ls": list[scenarios.ListedExample],
    "scenario ls": list[scenarios.ListedScenario],
    "scenario show": scenarios.ScenarioShow,
    "scenario run": list[scenarios.JudgementAnswer],
    "scenario judge": scenarios.JudgementAnswer,
    "scenario break": scenarios.Broken,
    "scenario hint": scenarios.Hints,
    "scenario check": scenarios.Checked,
    "scenario fix": scenarios.Fixed,
    "scenario explain": scenarios.ExplanationAnswer,
    "scenario score": list[scenarios.Score],
    "capture": packets.CaptureAnswer,
    "dissect": analysis.Dissect,
    "analyze": analysis.Analyze,
    "follow": analysis.Follow,
    "craft": packets.Craft,
    "record start": recordings.Started,
    "record stop": recordings.RecordingAnswer,
    "record ls": list[recordings.RecordingSummaryAnswer],
    "record show": recordings.RecordingAnswer,
    "top": recordings.DashboardAnswer,
    "replay": recordings.DashboardAnswer,
    "diagnose": diagnoses.Diagnosis,
    "report": reports.Reports,
    "compare": comparisons.ComparisonAnswer,
    "vm status": machine.VmStatus,
    "vm ls": list[machine.ListedVm],
    "vm checkpoint ls": list[machine.CheckpointAnswer],
}
"""What each command answers, and ``error``, which any may."""


def adapter(command: str) -> TypeAdapter[Any]:
    """What checks, and describes, the answers of a command; KeyError when it has none."""
    return TypeAdapter(ANSWERS[command])
