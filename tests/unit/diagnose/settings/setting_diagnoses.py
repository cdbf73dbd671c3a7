"""Diagnoses of settings that differ where packets are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.diagnose.conservation.locations import Location, PacketEffect
from lab.diagnose.diagnosis import Diagnosis, DiagnosisOutcome, Found
from lab.diagnose.route_paths import RoutePaths
from lab.diagnose.setting_causes import with_setting_causes
from lab.diagnose.symptom import Evidence
from tests.unit.diagnose.made_facts import PEERS, TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.diagnose.differing import DifferingSetting

SEEN = Evidence(says="packets are gone", of="", source="samples", value=7, at=2.0)
H1_LEAF = PEERS["h1:eth1"]


def diagnosed(
    settings: Sequence[DifferingSetting], *places: str, causes: Sequence[Found] = (),
    effect: PacketEffect = PacketEffect.VANISH, unexplained: Sequence[Evidence] = (),
) -> Diagnosis:  # fmt: skip
    located = tuple(Location(place, effect, 7, 100, SEEN) for place in places)
    outcome = DiagnosisOutcome.FAULT if causes else DiagnosisOutcome.UNKNOWN
    before = Diagnosis(
        outcome=outcome, causes=tuple(causes), unexplained=tuple(unexplained), missing=(), start=0.0, end=2.0,
        located=located, differing=tuple(settings),
    )  # fmt: skip
    return with_setting_causes(before, RoutePaths(TOPOLOGY))


def cause(name: str, place: str, confidence: float = 0.9) -> Found:
    return Found(
        cause=name, title=name, fault=True, places=(place,), priority=None, confidence=confidence, evidence=(SEEN,),
        rival="", tell="", fix="", words="", since=0.0,
    )  # fmt: skip


def named(found: Diagnosis) -> list[tuple[str, tuple[str, ...], float]]:
    return [(each.cause, each.places, each.confidence) for each in found.causes]
