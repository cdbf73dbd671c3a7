"""Generate the Grafana dashboard that comes with the alert rules, from the rules.

    python scripts/dashboard.py lab/telemetry/alerts/rocelab-roce.dashboard.json

Each alert has a panel with the expression that it compares, and its limit as a line. A test generates the file again.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from grafana_foundation_sdk.builders import common, dashboard, prometheus, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import GraphTresholdsStyleMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
)

sys.path.insert(0, str(Path(__file__).parents[1]))  # this checkout, not the one that is installed

from lab.telemetry.alerts.fired_alerts import RULES

_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${source}")
_COMPARISON: Final = re.compile(r"\s*(?P<sign>>|==)\s*(?P<limit>[\d.]+)\s*(?=$|\n|or )")
_CONDITION: Final = re.compile(r"\s+(?:unless|and)\b.*", re.DOTALL)
_CLOCK: Final = "on() group_left() fabric:clock_rate:rate1m"
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24


@dataclass(frozen=True)
class View:
    """A panel without an alert."""

    title: str
    unit: str
    expression: str
    legend: str


ALERTS: Final = {
    "Pauses": ("PortPausedWithoutEnd", "HostPausesSwitch", "PfcStorm", "GlobalPause"),
    "Losses": (
        "LosslessDrops", "RdmaLossWithoutDrops", "RdmaRetransmissions", "RdmaAcksLate", "RdmaQpFailed",
        "WatchdogDrops",
    ),
    "Congestion control": ("CongestionWithoutCnps", "CnpsIgnored", "CnpsLost", "PausesWithoutMarks"),
    "Routing and links": (
        "BgpPeerDown", "BfdPeerDown", "RoutingDaemonDown", "RdmaPortDown", "NetworkPortDown", "DuplicateMac",
        "FloodsFillPort",
    ),
    "Jobs": ("StragglerRank",),
}  # fmt: skip
"""The alerts of each row. PausesSpread has the expression of PortPausedWithoutEnd.

Alerts without a limit are left out: they compare a setting with that of other ports, or with its own past.
"""
VIEWS: Final = {
    "Pauses": (
        View(
            "XOFF frames of hosts",
            "pps",
            f"sum by (instance, netdev, direction) (rate(rdma_roce_pfc_pause_frames_total[1m])) / {_CLOCK}",
            "{{instance}}:{{netdev}} {{direction}}",
        ),
    ),
    "Congestion control": (
        View(
            "ECN marks of switches",
            "pps",
            f"sum by (instance, device) (rate(sonic_queue_wred_ecn_marked_packets_total[1m])) / {_CLOCK}",
            "{{instance}}:{{device}}",
        ),
        View(
            "CNPs that hosts sent",
            "pps",
            f"sum by (instance, device) (rate(rdma_cc_tx_cnp_pkts_total[1m])) / {_CLOCK}",
            "{{instance}} {{device}}",
        ),
    ),
    "Traffic and buffers": (
        View("Utilisation of uplinks", "percentunit", "uplink:utilisation:rate30s", "{{instance}}:{{device}}"),
        View(
            "RDMA received",
            "bps",
            f"8 * sum by (instance, device) (rate(node_infiniband_port_data_received_bytes_total[1m])) / {_CLOCK}",
            "{{instance}} {{device}}",
        ),
        View(
            "Peak of lossless queues",
            "bytes",
            'max by (instance, device, queue) (sonic_queue_watermark_bytes{queue=~"[34]"})',
            "{{instance}}:{{device}} queue {{queue}}",
        ),
        View(
            "Peak of lossless priority groups",
            "bytes",
            'max by (instance, device, pg) (sonic_ingress_priority_group_watermark_bytes{pg=~"[34]"})',
            "{{instance}}:{{device}} group {{pg}}",
        ),
        View(
            "Peak of headroom",
            "bytes",
            'max by (instance, device, pg) (sonic_ingress_priority_group_xoff_room_watermark_bytes{pg=~"[34]"})',
            "{{instance}}:{{device}} group {{pg}}",
        ),
    ),
}
"""Further panels of each row."""
_UNITS: Final = {"PortPausedWithoutEnd": "percentunit", "HostPausesSwitch": "pps", "StragglerRank": "percentunit"}


def compared(expression: str) -> tuple[str, float, bool]:
    """Return what an alert compares, without its further conditions, the limit, and whether it must exceed that.

    Otherwise the alert fires at the limit itself: a state that is 0.
    """
    first = _CONDITION.sub("", expression.strip())
    limit = _COMPARISON.search(f"{first}\n")
    if limit is None:
        raise ValueError(f"no comparison in {expression}")
    return _COMPARISON.sub(" ", first).strip(), float(limit["limit"]), limit["sign"] == ">"


def rules() -> dict[str, Any]:
    """Return the alerting rules by name."""
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"] if "alert" in rule}


def build() -> dashboard.Dashboard:
    """Return the dashboard: the alerts over time, then rows of panels."""
    board = (
        dashboard.Dashboard("rocelab: RoCEv2 fabric")
        .uid("rocelab-roce")
        .description("Needs the rules of rocelab-roce.rules.yml: panels divide by their rate of the fabric's clock.")
        .tags(["rocelab", "roce", "rdma"])
        .time("now-30m", "now")
        .refresh("5s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_panel(_firing())
    )
    alerts = rules()
    for title in dict.fromkeys([*ALERTS, *VIEWS]):
        board = board.with_row(dashboard.Row(title))
        for name in ALERTS.get(title, ()):
            board = board.with_panel(_panel_of(name, alerts[name]))
        for view in VIEWS.get(title, ()):
            board = board.with_panel(_panel(view.title, view.unit, view.expression, view.legend))
    return board


def _firing() -> statetimeline.Panel:
    return (
        statetimeline.Panel()
        .title("Firing alerts")
        .description("Causes name what to repair; symptoms follow from one.")
        .datasource(_SOURCE)
        .span(_COLUMNS)
        .height(_HEIGHT)
        .with_target(
            _query(
                'max by (alertname, role, instance) (ALERTS{alertstate="firing", role=~"cause|symptom"})',
                "{{role}}: {{alertname}} {{instance}}",
            )
        )
    )


def _panel_of(name: str, rule: dict[str, Any]) -> timeseries.Panel:
    expression, limit, exceeds = compared(rule["expr"])
    labels = re.findall(r"{{ \$labels\.(\w+) }}", rule["annotations"]["summary"])
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    colours = ("green", "red") if exceeds else ("red", "green")
    steps = [Threshold(value=None, color=colours[0]), Threshold(value=limit + (not exceeds), color=colours[1])]
    return (
        _panel(name, _UNITS.get(name, "short"), expression, legend)
        .description(rule["annotations"].get("description", rule["labels"]["role"]))
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.LINE))
    )


def _panel(title: str, unit: str, expression: str, legend: str) -> timeseries.Panel:
    placed = common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    panel = timeseries.Panel().title(title).unit(unit).min(0).datasource(_SOURCE).span(_WIDTH).height(_HEIGHT)
    return panel.legend(placed.show_legend(True)).with_target(_query(expression, legend))


def _query(expression: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expression).legend_format(legend).datasource(_SOURCE).ref_id("A").range()


def main() -> None:
    """Write the dashboard to the file that the command line names."""
    board = build().build()
    for number, panel in enumerate(board.panels or (), 1):
        panel.id_val = number
    text = JSONEncoder(sort_keys=True, indent=2).encode(board)
    Path(sys.argv[1]).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
