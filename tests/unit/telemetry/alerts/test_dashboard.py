"""The dashboard that comes with the alert rules: generated from them, and judged by promtool and the families."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.telemetry.alerts.fired_alerts import DASHBOARD, RULES
from lab.telemetry.metrics.metric_families import FAMILIES

ROOT: Final = Path(__file__).parents[4]
BOARD: Final[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
PANELS: Final[list[dict[str, Any]]] = BOARD["panels"]
QUERIES: Final = {panel["title"]: panel["targets"][0]["expr"] for panel in PANELS if "targets" in panel}
RULE: Final = {rule.get("alert", rule.get("record")): rule["expr"] for rule in
               yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]}  # fmt: skip
WITHOUT_PANEL: Final = {
    "PausesSpread", "NicWithoutCongestionControl", "CcRegistersDiffer", "EcnThresholdsDiffer", "EcnThresholdTooLow",
    "EcnOffOnPort", "QueueWithoutMarks", "UplinkIdle", "LinkRateFell", "MtuFell", "EvpnVtepsLost",
    "RoutesLost", "EcmpPathsLost", "EcmpHashDiffers", "GatewayMacDiffers", "EthernetSegmentLeafLost",
    "RanksOnDifferentRails",
}  # fmt: skip
"""Alerts with the expression of another panel, and those that compare with other ports or with the past."""
WORDS: Final = {
    "sum",
    "max",
    "by",
    "on",
    "or",
    "rate",
    "increase",
    "offset",
    "group_left",
    "label_replace",
    "min_over_time",
    "ALERTS",
}


def names(query: str) -> set[str]:
    """The metrics of a query: words that are neither labels nor words of PromQL."""
    plain = re.sub(r'"[^"]*"|\b(by|on|group_left) *\([^)]*\)|\{[^}]*\}|\[[^]]*\]|\b[\d.]+[smh]?\b', " ", query)
    return set(re.findall(r"[A-Za-z_:][\w:]*", plain)) - WORDS


def complaints(folder: Path, queries: dict[str, str]) -> int:
    """The exit code of promtool for a file of rules with these queries."""
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries.values())]
    (folder / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    argv = ["promtool", "check", "rules", "panels.yml"]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False, timeout=60).returncode


def test_it_is_the_one_that_the_script_generates(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "dashboard.py"
    subprocess.run([sys.executable, str(script), "new.json"], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "new.json").read_text() == DASHBOARD.read_text()


def test_promtool_parses_each_query(tmp_path: Path) -> None:
    assert complaints(tmp_path, QUERIES) == 0
    assert complaints(tmp_path, QUERIES | {"bad": "sum by (x"}) != 0


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_has_metrics_that_exist(title: str) -> None:
    assert names(QUERIES[title]) <= {family.name for family in FAMILIES} | RULE.keys()


def test_an_unknown_metric_is_found() -> None:
    assert names('sum by (a) (rate(nosuch_total{b="c"}[1m])) / on() group_left() x:y') == {"nosuch_total", "x:y"}


def test_each_alert_has_a_panel_with_its_own_expression() -> None:
    alerts = {name: expression for name, expression in RULE.items() if ":" not in name}
    assert alerts.keys() - QUERIES.keys() == WITHOUT_PANEL
    for name in alerts.keys() & QUERIES.keys():
        parts = [" ".join(part.split()) for part in QUERIES[name].split(" or ")]
        whole = " ".join(alerts[name].split())
        assert all(part in whole for part in parts)
        assert whole.startswith(parts[0])
        assert whole[len(parts[0]) :].startswith((" > ", " == "))


def test_the_limit_of_an_alert_is_a_line() -> None:
    panels = {panel["title"]: panel for panel in PANELS}
    paused = panels["PortPausedWithoutEnd"]["fieldConfig"]["defaults"]
    assert [(each["value"], each["color"]) for each in paused["thresholds"]["steps"]] == [
        (None, "green"),
        (0.95, "red"),
    ]
    assert paused["custom"]["thresholdsStyle"]["mode"] == "line"
    down = panels["BgpPeerDown"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(each["value"], each["color"]) for each in down] == [(None, "red"), (1, "green")]


def test_panels_have_ids_a_source_and_room() -> None:
    """No two of them are in the same place, and the data source is chosen when the file is imported."""
    assert all(count == 1 for count in Counter(panel["id"] for panel in PANELS).values())
    (variable,) = BOARD["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    targets = [target for panel in PANELS for target in panel.get("targets", ())]
    source = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    assert all(target["datasource"] == source and target["refId"] for target in targets)
    places = sorted(tuple(panel["gridPos"][key] for key in ("y", "x", "w", "h")) for panel in PANELS)
    assert all(x + w <= 24 for _, x, w, _ in places)
    for (y, x, w, h), (below, beside, _, _) in pairwise(places):
        assert below >= y + h or (below == y and beside >= x + w)
