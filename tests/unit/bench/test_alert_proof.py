"""The table of how good the alerts are: what ``rocelab alerts --json`` says of runs, summed up by scenario."""

from __future__ import annotations

from typing import Any

from tests.bench.catalogue_parts.alert_proof import COLUMNS, summary, tabulate
from tests.bench.catalogue_parts.page_table import with_table


def run(scenario: str, cause: str, *roots: str, delay: int | None = None, false: int = 0) -> dict[str, Any]:
    """A run whose root alerts mean the cause if one of them has detected it."""
    alerts = [{"name": name, "root": True} for name in roots] + [{"name": "Symptom", "root": False}]
    verdict = delay is not None if cause else None
    return {
        "scenario": scenario, "cause": cause, "alerts": alerts, "detected": verdict, "delay": delay,
        "false_alarms": false, "root_right": verdict,
    }  # fmt: skip


RUNS = [
    run("pfc-storm", "pfc-storm", "PfcStorm", delay=2),
    run("pfc-storm", "pfc-storm", "PfcStorm", "LosslessDrops", false=1),
    run("slow-rail", "slow-receiver", "HostPausesSwitch", delay=1),
    run("parking-lot", "parking-lot"),
    run("incast", "", false=2),
    run("", ""),
]


def test_a_row_for_each_scenario_and_one_for_runs_without_one() -> None:
    assert list(tabulate(RUNS)) == [
        ("healthy runs", "", 1, "", "", "", 0, ""),
        ("incast", "", 1, "", "", "", 2, ""),
        ("parking-lot", "", 1, "", "no", "", 0, "no"),
        ("pfc-storm", "", 2, "`PfcStorm`, `LosslessDrops`", "1 of 2", "2", 1, "1 of 2"),
        ("slow-rail", "slow-receiver", 1, "`HostPausesSwitch`", "yes", "1", 0, "yes"),
    ]


def test_the_summary_counts_faults_and_runs_without_one() -> None:
    assert summary(RUNS) == (
        "2 of 4 faults are detected, after 1.5 scrapes (median). In 2 of 4 runs all root alerts mean the cause. "
        "1 of 2 runs without a fault have a false alarm."
    )


def test_a_page_has_the_new_table_in_place_of_the_old_one() -> None:
    page = "# Page\n\nText.\n\n## Proof\n\nold\n\n## After\n\nmore\n"
    made = with_table(page, "## Proof", COLUMNS[:2], [("a", "b")], "Summary.")
    assert made == (
        "# Page\n\nText.\n\n## Proof\n\nSummary.\n\n| scenario | cause |\n|---|---|\n| a | b |\n\n## After\n\nmore\n"
    )
    assert with_table(made, "## Proof", COLUMNS[:2], [("a", "b")], "Summary.") == made
    assert with_table("# Page\n", "## Proof", ("x",), []) == "# Page\n\n## Proof\n\n| x |\n|---|\n"
