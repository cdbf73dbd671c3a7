"""What the catalogue makes of runs: how often each passed, and which evidence comes first."""

from __future__ import annotations

from typing import Any

from lab.scenario import library
from tests.bench.catalogue import Played, by_topology, halved


def run(*outcomes: str) -> dict[str, Any]:
    worst = next((outcome for outcome in outcomes if outcome != "pass"), "pass")
    checks = [{"name": f"check-{number}", "outcome": each, "evidence": each} for number, each in enumerate(outcomes)]
    return {"outcome": worst, "checks": checks}


def test_every_run_must_pass() -> None:
    assert Played("incast", 2, [run("pass"), run("pass")]).good
    assert not Played("incast", 2, [run("pass"), run("pass", "fail")]).good
    assert not Played("incast", 2, [run("pass"), run("unknown")]).good
    assert not Played("incast", 2, [run("pass")]).good
    assert not Played("incast", 0, []).good


def test_what_did_not_pass_is_told_first() -> None:
    played = Played("incast", 3, [run("pass", "pass"), run("pass", "fail"), run("pass", "unknown")])
    assert list(played.checks()) == [
        ("check-0", 3, ["pass", "pass", "pass"]),
        ("check-1", 1, ["fail", "unknown", "pass"]),
    ]


def test_scenarios_of_one_fabric_stay_together_until_a_vm_would_have_most() -> None:
    groups = by_topology(library.names())
    assert sorted(name for group in groups for name in group) == library.names()
    assert all(len({library.topology_of(library.find(name)) for name in group}) == 1 for group in groups)
    assert halved([["a", "b", "c", "d"], ["e"]], 2) == [["a", "b", "c"], ["d"], ["e"]]
