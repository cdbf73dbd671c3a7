"""Records of all settings: the later ones have the nodes that changed, and together they are the whole state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.audit.audited import FabricAudit, NodeAudit, UnreadPart
from lab.audit.objects.kernel_objects import InterfaceAudit, NeighbourAudit
from lab.errors import OperationFailed
from lab.telemetry.read.audits import read_audits
from lab.telemetry.record import audit_record as record
from lab.telemetry.store.recording_folder import Folder, append_line

PORT = InterfaceAudit("eth1", "veth", up=True, carrier=True, mtu=9000, mac="02:00:00:00:00:01", master="",
                      queue_length=1000, counters={"rx bytes": 1})  # fmt: skip
NEIGHBOUR = NeighbourAudit("eth1", "10.0.0.0", "02:00:00:00:00:09", permanent=False, state="REACHABLE")
HOST = NodeAudit("h1", "host", interfaces=(PORT,))
FABRIC = cast("Any", SimpleNamespace(name="f", state=SimpleNamespace(challenge=Path("/nowhere"))))


@pytest.mark.parametrize(
    ("then", "now", "recorded"),
    [
        (HOST, HOST, False),
        (HOST, replace(HOST, interfaces=(replace(PORT, counters={"rx bytes": 9}),)), False),
        (HOST, replace(HOST, interfaces=(replace(PORT, mtu=1500),)), True),
        (HOST, replace(HOST, neighbours=(NEIGHBOUR,)), True),
        (replace(HOST, unread=(UnreadPart("nft", "no nft"),)), HOST, True),
        (HOST, replace(HOST, unread=(UnreadPart("nft", "no nft"),)), True),
    ],
    ids=["same", "counters", "setting", "learned-neighbour", "answers-again", "answers-no-more"],
)
def test_the_end_of_a_recording_has_what_changed(
    then: NodeAudit, now: NodeAudit, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only counters, timers and ages may be older. Nobody sees a neighbour's wrong MAC if its node is left out."""
    states = [FabricAudit("f", {"h1": each, "h2": replace(HOST, name="h2")}) for each in (then, now)]
    waiting = iter(states)
    monkeypatch.setattr(record, "audit", lambda _: next(waiting))
    monkeypatch.setattr(record, "load_baseline", lambda _: states[0])
    earlier, first = record.audit_record(FABRIC)
    _, last = record.audit_record(FABRIC, earlier)
    assert list(first["nodes"]) == ["h1", "h2"]
    assert list(last["nodes"]) == (["h1"] if recorded else [])
    for number, line in enumerate((first, last)):
        append_line(Folder(tmp_path).audit, {"ns": number, **line})
    begin, end = read_audits(Folder(tmp_path))
    assert begin.state == states[0]
    assert end.state.nodes["h1"] == (now if recorded else then)


def test_a_fabric_without_a_plan_has_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_baseline(_: object) -> FabricAudit:
        raise OperationFailed("fabric f has no plan to compare with")

    monkeypatch.setattr(record, "audit", lambda _: FabricAudit("f", {"h1": HOST}))
    monkeypatch.setattr(record, "load_baseline", load_baseline)
    assert record.audit_record(FABRIC)[1]["drift"] is None


def test_a_recording_does_not_tell_what_a_challenge_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then, now = (
        FabricAudit("f", {"h1": replace(HOST, interfaces=(replace(PORT, mtu=mtu),))}) for mtu in (9000, 1500)
    )
    monkeypatch.setattr(record, "audit", lambda _: now)
    monkeypatch.setattr(record, "load_baseline", lambda _: then)
    assert record.audit_record(FABRIC)[1]["drift"]
    hidden = cast("Any", SimpleNamespace(name="f", state=SimpleNamespace(challenge=tmp_path)))
    assert record.audit_record(hidden)[1]["drift"] is None
