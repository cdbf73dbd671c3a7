"""The alert rules on made recordings, evaluated by promtool: what fires, what is a root alert, and what does not."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.cli.machine.docs import PAGES
from lab.dataplane.port_layout import Drop
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import process
from lab.telemetry.alerts import rule_tests
from lab.telemetry.alerts.fired_alerts import (
    ALERTMANAGER,
    DASHBOARD,
    RULES,
    AlertProof,
    FiredAlert,
    causes_of,
    places_of,
    prove,
    root_alerts,
)
from lab.telemetry.alerts.recorded_metrics import RecordedSeries
from lab.telemetry.alerts.rule_tests import evaluate, export, fired_alerts
from lab.telemetry.metrics.metric_families import FAMILIES
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose import recorded
from tests.unit.diagnose.recorded import begun, during, incast
from tests.unit.telemetry.made import RDMA, Made, plain_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERY = 0.5
"""Seconds between scrapes: two in each of the recordings' phases."""


def quiet(made: Made) -> None:
    """Nothing happens."""


def slow(made: Made) -> None:
    """h4 pauses leaf1, which is paused half of the time."""
    incast(made)
    made.counters("h4:eth1")["priority"]["tx_pause"][3] += 3
    made.counters("leaf1:swp6")["priority"]["rx_pause"][3] += 3
    made.counters("leaf1:swp6")["priority"]["paused_ns"][3] += 25_000_000


def storm(made: Made) -> None:
    """h4 pauses leaf1 without end, whose watchdog drops."""
    slow(made)
    made.counters("leaf1:swp6")["queue"]["storms"][3] = 1
    made.counters("leaf1:swp6")["queue"]["drop_packets"][3][Drop.WATCHDOG] += 2


def gray(made: Made) -> None:
    """h4 misses packets that no queue dropped, and h1 sends them again."""
    incast(made)
    made.devices[made.hosts.index("h4"), RDMA.index("out_of_seq_request")] += 1
    made.devices[made.hosts.index("h1"), RDMA.index("rcvd_seq_err")] += 1


def global_pause(made: Made) -> None:
    """h1's switch port sends 802.3x pauses, which do nothing, and packets are lost."""
    recorded.deaf(made)
    made.counters("h1:eth1")["rx_global_pause"] += 1


def alerts_of(path: Path, happens: Callable[[Made], None]) -> list[FiredAlert]:
    """The alerts of a second of ``incast`` and a second of something else."""
    made = begun(path)
    during(made, "baseline", incast)
    during(made, "observe", happens)
    return evaluate(Recording.open(made.finished()), EVERY)


@pytest.mark.parametrize(
    ("happens", "firing", "roots"),
    [
        (quiet, set(), set()),
        (incast, set(), set()),
        (slow, {"HostPausesSwitch", "PausesSpread"}, {"HostPausesSwitch"}),
        (storm, {"PfcStorm", "HostPausesSwitch", "PausesSpread", "WatchdogDrops"}, {"PfcStorm"}),
        (recorded.deaf, {"LosslessDrops"}, {"LosslessDrops"}),
        (gray, {"RdmaLossWithoutDrops", "RdmaRetransmissions"}, {"RdmaLossWithoutDrops"}),
        (global_pause, {"LosslessDrops", "GlobalPause"}, {"GlobalPause"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_fires_and_what_is_its_root(
    tmp_path: Path, happens: Callable[[Made], None], firing: set[str], roots: set[str]
) -> None:
    alerts = alerts_of(tmp_path / "run", happens)
    assert {alert.name for alert in alerts} == firing
    assert {alert.name for alert in root_alerts(alerts)} == roots
    assert all(alert.first >= 2 for alert in alerts)


Case = tuple[str, float | tuple[float | None, float | None]]
"""A series with labels other than instance a and device b, and its growth from 1, or its values before and after."""


def at(instance: str, family: str, grown: float) -> Case:
    """A series of one instance."""
    return f'{family}{{instance="{instance}"}}', grown


SWITCHES: list[Case] = [at(leaf, "sonic_crm_stats_nexthop_group_member_used", 0) for leaf in "abc"]
CASES: dict[str, list[Case]] = {
    "PfcStorm": [("sonic_pfc_wd_queue_deadlock_detected_total", 1)],
    "PortPausedWithoutEnd": [("sonic_port_pfc_rx_pause_duration_seconds_total", 30)],
    "HostPausesSwitch": [('rdma_roce_pfc_pause_frames_total{direction="tx"}', 100)],
    "GlobalPause": [("sonic_port_pause_rx_packets_total", 1)],
    "LosslessDrops": [('rdma_netdev_prio_buf_discard_total{priority="3"}', 1)],
    "RdmaLossWithoutDrops": [("rdma_out_of_sequence_total", 1)],
    "CnpsIgnored": [("rdma_rp_cnp_ignored_total", 1)],
    "CongestionWithoutCnps": [("rdma_cc_rx_ce_pkts_total", 20), ("rdma_cc_tx_cnp_pkts_total", 0)],
    "RdmaAcksLate": [
        ("rdma_local_ack_timeout_err_total", 1), ('rdma_duplicate_request_total{instance="c"}', 1),
        ("rdma_packet_seq_err_total", 0),
    ],
    "NicWithoutCongestionControl": [
        ('rdma_netdev_vport_rdma_packets_total{netdev="b"}', 0),
        ("rocelab_cc_register", (1, None)), ('rocelab_cc_register{instance="c"}', 0),
    ],
    "CnpsLost": [("rdma_cc_tx_cnp_pkts_total", 50), ('rdma_cc_rx_cnp_pkts_total{instance="c"}', 20)],
    "CcRegistersDiffer": [
        *(at(host, "node_network_speed_bytes", 0) for host in "abc"),
        *(at(host, "rocelab_cc_register", host == "b") for host in "abc"),
    ],
    "EcnThresholdsDiffer": [
        *(at(leaf, "node_network_speed_bytes", 0) for leaf in "abc"),
        *(at(leaf, "sonic_wred_ecn_mark_mode", 0) for leaf in "abc"),
        *(at(leaf, "sonic_wred_green_min_threshold_bytes", leaf == "b") for leaf in "abc"),
    ],
    "EcnThresholdTooLow": [("sonic_wred_green_min_threshold_bytes", -1), ("node_network_mtu_bytes", 0)],
    "EcnOffOnPort": [
        ('sonic_wred_ecn_mark_mode{queue="3"}', -1), ('sonic_wred_ecn_mark_mode{queue="3",instance="c"}', 0),
    ],
    "PausesWithoutMarks": [
        ('sonic_port_pfc_tx_packets_total{priority="3"}', 20), ('sonic_wred_ecn_mark_mode{queue="3"}', 0),
        ('sonic_queue_wred_ecn_marked_packets_total{queue="4"}', 9),
    ],
    "QueueWithoutMarks": [
        ('sonic_queue_curr_occupancy_bytes{queue="3"}', (10, 10)),
        ('sonic_wred_green_min_threshold_bytes{queue="3"}', (10, 5)),
        ('sonic_queue_wred_ecn_marked_packets_total{queue="3"}', 0),
    ],
    "UplinkIdle": [
        ('node_network_speed_bytes{device="swp1"}', 0), ('node_network_speed_bytes{device="swp2"}', 0),
        ('frr_bgp_peer_state{peer="swp1",peer_as="7"}', 0), ('frr_bgp_peer_state{peer="swp2",peer_as="7"}', 0),
        ('node_network_transmit_bytes_total{device="swp1"}', 54),
        ('node_network_transmit_bytes_total{device="swp2"}', 0),
        ('rdma_roce_pfc_pause_duration_total{direction="rx",instance="c"}', 10**7),
    ],
    "StragglerRank": [("rocelab_job_step_late_seconds", (0.05, 0.15)), ("rocelab_job_step_seconds", 0)],
    "LinkRateFell": [("node_network_speed_bytes", -0.5)],
    "MtuFell": [("node_network_mtu_bytes", -0.5)],
    "NetworkPortDown": [("node_network_up", -1)],
    "RoutesLost": [('frr_route_total_fib{afi="ipv4",vrf="default"}', -1)],
    "EcmpPathsLost": [("sonic_crm_stats_nexthop_group_member_used", -1)],
    "EcmpHashDiffers": [
        *SWITCHES,
        *((f'node_sysctl_net_ipv4_fib_multipath_hash_policy{{instance="{leaf}"}}', -(leaf == "b")) for leaf in "abc"),
    ],
    "GatewayMacDiffers": [
        *SWITCHES,
        *((f'node_network_info{{instance="{leaf}",device="vlan10",address="1"}}', 0) for leaf in "ac"),
        ('node_network_info{instance="b",device="vlan20",address="1"}', (1, None)),
        ('node_network_info{instance="b",device="vlan20",address="2"}', (None, 1)),
    ],
    "DuplicateMac": [('rocelab_evpn_duplicate_macs{vni="10"}', (None, 1))],
    "EthernetSegmentLeafLost": [('rocelab_evpn_segment_vteps{device="bond1"}', -1)],
    "FloodsFillPort": [
        ("node_network_speed_bytes", 0), ("sonic_queue_bytes_total", 0),
        ("node_network_transmit_bytes_total", 30), ("node_network_receive_bytes_total", 10),
    ],
    "RanksOnDifferentRails": [
        ('rocelab_job_rank_info{instance="a",job="j",rank="0",device="eth1"}', 0),
        ('rocelab_job_rank_info{instance="c",job="j",rank="1",device="eth1"}', (1, None)),
        ('rocelab_job_rank_info{instance="c",job="j",rank="1",device="eth2"}', (None, 1)),
    ],
    "EvpnVtepsLost": [("frr_bgp_l2vpn_evpn_remote_vteps", -1)],
    "BgpPeerDown": [("frr_bgp_peer_state", -1)],
    "BfdPeerDown": [("frr_bfd_peer_state", -1)],
    "RoutingDaemonDown": [("frr_collector_up", -1)],
    "RdmaPortDown": [("rdma_link_downed_total", 1)],
    "WatchdogDrops": [("sonic_pfc_wd_queue_tx_dropped_packets_total", 1)],
    "RdmaQpFailed": [("rdma_req_transport_retries_exceeded_total", 1)],
    "RdmaRetransmissions": [("rdma_packet_seq_err_total", 1), ("rdma_local_ack_timeout_err_total", 0)],
    "PausesSpread": [
        ("sonic_port_pfc_rx_pause_duration_seconds_total", 15), ("sonic_port_pause_rx_packets_total", 1),
    ],
}  # fmt: skip
"""The series that make each alert fire between the third scrape and the fourth."""
SCRAPES = 6


def fired(cases: list[Case], *clock: float) -> dict[str, int]:
    """The alerts that these series make fire on a real cluster, and at which scrape."""
    return {alert.name: alert.first for alert in alerts_on(cases, *clock)}


def places(cases: list[Case]) -> dict[str, int]:
    """The places of these alerts, and at which scrape each began."""
    return {alert.where: alert.first for alert in alerts_on(cases)}


def alerts_on(cases: list[Case], *clock: float) -> list[FiredAlert]:
    made = []
    for name, grown in cases:
        family, _, more = name.rstrip("}").partition("{")
        labels = {"instance": "a", "device": "b", **dict(re.findall(r'(\w+)="([^"]*)"', more))}
        before, after = grown if isinstance(grown, tuple) else (1, 1 + grown)
        made.append(RecordedSeries(family, labels, [before] * 3 + [after] * (SCRAPES - 3)))
    if clock:
        made.append(RecordedSeries("rocelab_virtual_seconds_total", {"fabric": "f"}, clock))
    return list(fired_alerts(rule_tests.rule_tests(made, SCRAPES, {})))


@pytest.mark.parametrize("name", CASES)
def test_each_alert_fires_at_the_first_scrape_that_shows_it_and_not_before(name: str) -> None:
    assert fired(CASES[name])[name] == 3
    before = [(series, grown[0]) if isinstance(grown, tuple) else (series, 1) for series, grown in CASES[name]]
    assert fired([(series, (value, value)) for series, value in before]) == {}


def test_each_alert_has_a_case_and_a_row_on_the_page() -> None:
    page = (PAGES / "alerts.md").read_text(encoding="utf-8")
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    roles = {rule["alert"]: rule["labels"]["role"] for rule in rules if "alert" in rule}
    assert CASES.keys() == roles.keys()
    assert all(f"| `{name}` | {role} |" in page for name, role in roles.items())
    assert page.count("\n| `") == len(roles)


def test_what_does_not_make_one_fire() -> None:
    """Lossy drops; losses that drops explain; marks that CNPs answer; small pauses; packets that arrived twice."""
    assert fired([('sonic_ingress_priority_group_dropped_packets_total{pg="0"}', 9)]) == {}
    drops = ('sonic_ingress_priority_group_dropped_packets_total{pg="3"}', 1)
    assert "RdmaLossWithoutDrops" not in fired([("rdma_out_of_sequence_total", 1), drops])
    assert fired([("rdma_cc_rx_ce_pkts_total", 90), ("rdma_cc_tx_cnp_pkts_total", 1)]) == {}
    assert fired([("rdma_cc_rx_ce_pkts_total", 7), ("rdma_cc_tx_cnp_pkts_total", 0)]) == {}, "marked ACKs"
    assert fired([('rdma_roce_pfc_pause_frames_total{direction="tx"}', 20)]) == {}
    assert fired([("sonic_port_pfc_rx_pause_duration_seconds_total", 27)]) == {}
    late: list[Case] = [("rdma_local_ack_timeout_err_total", 1), ("rdma_duplicate_request_total", 1)]
    assert "RdmaLossWithoutDrops" not in fired(late)
    assert fired(late[:1])["RdmaLossWithoutDrops"] == 4, "a scrape later: duplicates may be counted after the timeout"
    deep = CASES["QueueWithoutMarks"]
    assert fired([*deep[:2], ('sonic_queue_wred_ecn_marked_packets_total{queue="3"}', 1)]) == {}
    assert fired([*deep, ("sonic_port_pfc_rx_packets_total", 1)]) == {}, "a paused port's packets were marked before"
    idle = CASES["UplinkIdle"]
    busy: Case = ('node_network_transmit_bytes_total{device="swp2"}', 54)
    assert fired([each for each in idle if each[0] != busy[0]] + [busy]) == {}, "both uplinks are busy"
    assert fired(idle[:-1]) == {}, "no sender is paused or slowed down"


def thresholds(
    *ports: tuple[str, float | tuple[float, float]], setting: str = "green_min_threshold_bytes"
) -> list[Case]:
    """Ports by name with a threshold; ports of leaves to spines have a BGP session, and so have all of spines."""
    made: list[Case] = []
    for name, value in ports:
        labels = f'{{instance="{name.partition(":")[0]}",device="{name.partition(":")[2]}"}}'
        made += [(f"node_network_speed_bytes{labels}", 0), (f"sonic_wred_ecn_mark_mode{labels}", 0)]
        if "swp" in name:
            made.append((f'frr_bgp_peer_state{labels[:-1]},peer="{name.partition(":")[2]}"}}', 0))
        made.append((f"sonic_wred_{setting}{labels}", value if isinstance(value, tuple) else (value, value)))
    return made


LEAVES = (
    ("leaf1:swp1", 40.0),
    ("leaf2:swp1", 40.0),
    ("leaf3:swp1", 40.0),
    *((f"leaf{number}:h", 40.0) for number in (1, 2, 3)),
)


def test_thresholds_are_compared_between_ports_of_the_same_tier() -> None:
    """Spines, uplinks and ports to hosts may each have their own; one uplink that has those of spines differs."""
    spines = (("spine1:swp1", 90.0), ("spine1:swp2", 90.0), ("spine2:swp1", 90.0))
    assert fired(thresholds(*LEAVES, *spines)) == {}
    assert fired(thresholds(*LEAVES, *spines, ("leaf4:swp1", 90.0), ("leaf4:h", 40.0))) == {"EcnThresholdsDiffer": 0}


@pytest.mark.parametrize(
    "setting", ["green_min_threshold_bytes", "green_max_threshold_bytes", "ecn_green_mark_probability"]
)
def test_each_threshold_is_compared(setting: str) -> None:
    ports = (*LEAVES, ("leaf4:swp1", 40.0))
    assert fired(thresholds(*ports, ("leaf4:h", 40.0), setting=setting)) == {}
    assert fired(thresholds(*ports, ("leaf4:h", 41.0), setting=setting)) == {"EcnThresholdsDiffer": 0}


def test_of_two_ports_only_the_changed_one_differs() -> None:
    """Without a change, nothing shows which of two ports is right."""
    assert fired(thresholds(("leaf1:h", 40.0), ("leaf2:h", 41.0))) == {}
    assert places(thresholds(("leaf1:h", 40.0), ("leaf2:h", (40.0, 41.0)))) == {"leaf2:h": 3}
    assert places(thresholds(("leaf1:h", (40.0, 41.0)), ("leaf2:h", (40.0, 41.0)))) == {}, "both were changed"


def test_what_is_no_loss_of_routes_and_paths() -> None:
    """Routes of tenants come and go with hosts; a route that was there for a short time is not missed."""
    assert fired([('frr_route_total_fib{afi="ipv4",vrf="blue"}', -1)]) == {}
    assert fired([('frr_route_total_fib{afi="ipv4",vrf="default"}', 1)]) == {}
    assert fired([("sonic_crm_stats_nexthop_group_member_used", 2)]) == {}
    assert (
        fired(
            [('node_sysctl_net_ipv4_fib_multipath_hash_policy{instance="c"}', (1, 0)), *CASES["EcmpHashDiffers"][:4]]
        )
        == {}
    )


def test_gateways_with_addresses_of_their_own_are_no_conflict() -> None:
    """Each leaf has a router MAC of its own, and a gateway is not that of another network."""
    own: list[Case] = [
        (f'node_network_info{{instance="{leaf}",device="vlan4094",address="{leaf}"}}', 0) for leaf in "abc"
    ]
    shared = CASES["GatewayMacDiffers"][:5]
    assert fired([*own, *shared]) == {}
    other: Case = ('node_network_info{instance="b",device="vlan10",address="9"}', 0)
    assert fired([*own, *shared, other]) == {"GatewayMacDiffers": 0}
    assert fired([*own, *SWITCHES, other]) == {}, "nobody shares another one"


@pytest.mark.parametrize(("kind", "name"), [("bgp", "BgpPeerDown"), ("bfd", "BfdPeerDown")])
def test_a_session_has_two_minutes_to_come_up(kind: str, name: str) -> None:
    """Sessions of a fabric that was just built are down until they are up for the first time."""
    state = f"frr_{kind}_peer_state"
    assert fired([(state, (0, 1))]) == {}
    assert fired([(state, (0, 0))]) == {}
    labels = {"instance": "a", "device": "b"}
    never = [RecordedSeries(state, labels, [0] * 10)]
    assert {each.name: each.first for each in fired_alerts(rule_tests.rule_tests(never, 10, {}))} == {name: 8}


def test_ranks_on_all_rails_are_placed_well() -> None:
    ranks: list[Case] = [
        (f'rocelab_job_rank_info{{instance="{host}",job="j",rank="{host}{rail}",device="eth{rail}"}}', 0)
        for host in "ab" for rail in (1, 2)
    ]  # fmt: skip
    assert fired(ranks) == {}
    assert fired(ranks[1:3]) == {"RanksOnDifferentRails": 0}


def test_copies_and_full_ports_alone_are_no_floods() -> None:
    flooding = CASES["FloodsFillPort"]
    full: list[Case] = [("node_network_transmit_bytes_total", 30), ("node_network_receive_bytes_total", 30)]
    assert fired([*flooding[:2], *full]) == {}
    few: list[Case] = [("node_network_transmit_bytes_total", 10), ("node_network_receive_bytes_total", 1)]
    assert fired([*flooding[:2], *few]) == {}


def test_rates_are_by_the_clock_of_the_fabric() -> None:
    """In virtual time that runs at a thirtieth of Prometheus' time, 20 pauses are more than one a second."""
    few: list[Case] = [('rdma_roce_pfc_pause_frames_total{direction="tx"}', 20)]
    assert fired(few, *(0.5 * number for number in range(SCRAPES))).keys() == {"HostPausesSwitch"}
    assert fired(few, *(15.0 * number for number in range(SCRAPES))) == {}


def test_an_alert_names_the_place_and_fires_within_two_scrapes(tmp_path: Path) -> None:
    alerts = alerts_of(tmp_path / "run", slow)
    (cause,) = root_alerts(alerts)
    assert (cause.where, cause.labels["severity"]) == ("h4:eth1", "warning")
    assert prove(alerts, "slow-receiver", 3) == AlertProof("slow-receiver", True, cause.first - 2, 0, True)
    assert cause.first - 2 <= 2


def events(path: Path, *told: dict[str, Any]) -> dict[str, int]:
    """Which alerts fire in two seconds without traffic, and at which scrape each began; events are after a second."""
    made = begun(path)
    for peer in ("swp1", "swp2"):
        made.event(
            made.ns, source="routing", kind="bgp", node="leaf1", interface=peer, state="Established", before=""
        )
        made.event(made.ns, source="routing", kind="bfd", node="leaf1", interface=peer, state="up", before="")
    during(made, "baseline", quiet)
    for event in told:
        made.event(made.ns - 1, source="routing", node="leaf1", **event)
    during(made, "observe", quiet)
    return {f"{alert.name} {alert.where}": alert.first for alert in evaluate(Recording.open(made.finished()), EVERY)}


def test_sessions_and_daemons(tmp_path: Path) -> None:
    down = {"kind": "bgp", "interface": "swp1", "state": "Idle", "before": "Established"}
    bfd = {"kind": "bfd", "interface": "swp1", "state": "down", "before": "up"}
    assert events(tmp_path / "up") == {}
    fired = events(tmp_path / "down", down, bfd)
    assert fired.keys() == {"BgpPeerDown leaf1:swp1", "BfdPeerDown leaf1:swp1"}
    assert set(fired.values()) <= {2, 3}
    assert events(tmp_path / "lost", {"kind": "daemon_lost", "daemon": "bgpd"}).keys() == {
        "RoutingDaemonDown leaf1:bgp"
    }
    assert events(tmp_path / "silent", {"kind": "daemon_silent", "daemon": "bfdd"}).keys() == {
        "RoutingDaemonDown leaf1:bfd"
    }


def test_plain_links_and_empty_recordings_have_no_alerts(tmp_path: Path) -> None:
    assert evaluate(Recording.open(plain_run(tmp_path / "plain", 1000)), EVERY) == []


def test_exported_tests_pass_until_the_rules_change(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "observe", storm)
    recording = Recording.open(made.finished())
    files = export(tmp_path / "out", [(recording, evaluate(recording, EVERY))], EVERY)
    assert [file.name for file in files] == [RULES.name, ALERTMANAGER.name, DASHBOARD.name, "run.test.yml"]
    assert promtool("test", "rules", "run.test.yml", where=tmp_path / "out") == 0
    rules = tmp_path / "out" / RULES.name
    limit = "tx_dropped_packets_total[30s])) > "
    rules.write_text(rules.read_text().replace(f"{limit}0", f"{limit}999"))
    assert promtool("test", "rules", "run.test.yml", where=tmp_path / "out") == 1


def promtool(*words: str, where: Path) -> int:
    return subprocess.run(["promtool", *words], cwd=where, capture_output=True, check=False, timeout=60).returncode


def test_the_rules_are_valid_and_use_metrics_that_exist() -> None:
    assert promtool("check", "rules", RULES.name, where=RULES.parent) == 0
    known = {family.name for family in FAMILIES}
    expressions = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    used = {name for each in expressions for name in re.findall(r"\b(?:rdma|sonic|frr|rocelab|node)_\w+", each)}
    assert len(used) > 10
    assert used - known == {"frr_bgp_l2vpn_evpn_remote_vtep_count_total"}, "frr_exporter's name of a gauge"


def test_alertmanager_is_told_of_alerts_that_exist() -> None:
    text = ALERTMANAGER.read_text()
    config = yaml.safe_load(text)
    assert {receiver["name"] for receiver in config["receivers"]} == {config["route"]["receiver"]}
    named = {name for part in text.split('"') for name in part.split("|") if name[:1].isupper() and name.isalpha()}
    assert named <= causes_of().keys()
    assert {"PfcStorm", "RdmaLossWithoutDrops"} <= named


def alert(name: str, *scrapes: int, role: str = "cause") -> FiredAlert:
    return FiredAlert(name, {"role": role, "instance": "leaf1"}, scrapes)


def test_a_symptom_is_inhibited_while_a_cause_fires_and_only_then() -> None:
    cause, symptom = alert("LosslessDrops", 4, 5, 6), alert("RdmaRetransmissions", 3, 4, 5, role="symptom")
    assert root_alerts([cause, symptom]) == [cause]
    late = alert("RdmaRetransmissions", 5, 6, 7, role="symptom")
    assert root_alerts([cause, late]) == [cause, late]
    assert root_alerts([late]) == [late]


def test_alerts_of_one_name_and_place_are_told_apart_by_their_labels() -> None:
    """Routes of both IP versions, and two VNIs of a leaf; other alerts have their place alone."""
    labels = [
        ("RoutesLost", {"instance": "spine1", "afi": "ipv4", "role": "cause"}),
        ("RoutesLost", {"instance": "spine1", "afi": "ipv6", "role": "cause"}),
        ("RoutesLost", {"instance": "leaf1", "afi": "ipv4", "role": "cause"}),
        ("EvpnVtepsLost", {"instance": "leaf1", "vni": "10010"}),
        ("EvpnVtepsLost", {"instance": "leaf1", "vni": "10020"}),
        ("CnpsLost", {"afi": "ipv4"}),
        ("CnpsLost", {"afi": "ipv6"}),
    ]
    assert places_of([FiredAlert(name, each, (1,)) for name, each in labels]) == [
        "spine1, afi ipv4", "spine1, afi ipv6", "leaf1", "leaf1, vni 10010", "leaf1, vni 10020",
        "afi ipv4", "afi ipv6",
    ]  # fmt: skip


def test_the_proof_counts_misses_delays_and_false_alarms() -> None:
    storms, drops = alert("PfcStorm", 5, 6), alert("LosslessDrops", 5, 6)
    early = alert("GlobalPause", 1)
    assert prove([storms, drops], "pfc-storm", 4) == AlertProof("pfc-storm", True, 2, 0, True)
    assert prove([early, storms], "pfc-storm", 4) == AlertProof("pfc-storm", True, 2, 1, True)
    assert prove([drops], "pfc-storm", 4) == AlertProof("pfc-storm", False, None, 0, False)
    assert prove([], "pfc-storm", 4) == AlertProof("pfc-storm", False, None, 0, False)
    assert prove([drops], "", 0) == AlertProof("", None, None, 1, None)
    assert prove([], "", 0) == AlertProof("", None, None, 0, None)


def test_too_many_scrapes_no_promtool_and_broken_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = begun(tmp_path / "run")
    during(made, "observe", incast)
    recording = Recording.open(made.finished())
    with pytest.raises(UsageError, match="and may have 2000"):
        evaluate(recording, 1e-4)
    broken = tmp_path / RULES.name
    broken.write_text(RULES.read_text().replace("> 0", "> > 0", 1))
    monkeypatch.setattr(rule_tests, "RULES", broken)
    with pytest.raises(OperationFailed, match="promtool rejects the test"):
        evaluate(recording, EVERY)
    monkeypatch.setattr(process, "which", lambda _name: None)
    with pytest.raises(EnvironmentLacks, match="program promtool not found"):
        evaluate(recording, EVERY)


def test_a_promtool_that_crashes_is_no_broken_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """promtool 2 does so on a full disk: what it prints last is a line of its own source."""
    crashing = tmp_path / "promtool"
    lines = "panic: nil pointer dereference", "goroutine 1:", "main.go:281 +0x77ed"
    crashing.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}' >&2" for line in lines), "exit 2", ""]))
    crashing.chmod(0o755)
    monkeypatch.setattr(process, "find_tool", lambda *_: str(crashing))
    with pytest.raises(OperationFailed) as raised:
        rule_tests._promtool(tmp_path / "run.test.yml")
    assert raised.value.message == "promtool crashed at the test of run.test.yml: panic: nil pointer dereference"
    assert "TMPDIR" in raised.value.remedy
