"""What real exporters show besides: hosts, switches that are down, counters that begin anew, and fewer labels."""

from __future__ import annotations

from tests.unit.telemetry.alerts.test_alerts import CASES, SWITCHES, Case, alerts_on, at, fired, places, thresholds


def test_a_change_to_what_most_ports_have_is_no_difference() -> None:
    """Two other values are as frequent as each other, but not as this one."""
    ports = [(f"leaf{number}:h", value) for number, value in enumerate((40.0, 40.0, 40.0, 41.0, 41.0, 42.0, 42.0))]
    alerts = {each.where: each for each in alerts_on(thresholds(*ports, ("leaf7:h", (43.0, 40.0))))}
    assert sorted(alerts) == [f"leaf{number}:h" for number in (3, 4, 5, 6, 7)]
    assert max(alerts["leaf7:h"].scrapes) == 2, "until it was changed"


def test_of_three_values_that_are_as_frequent_the_changed_one_differs() -> None:
    ports = thresholds(("leaf1:h", 40.0), ("leaf2:h", 41.0), ("leaf3:h", (40.0, 42.0)))
    assert places(ports)["leaf3:h"] == 3


def test_uplinks_of_a_switch_without_metrics_of_bgp_are_not_compared_with_ports_to_hosts() -> None:
    uplinks = (("leaf1:swp1", 90.0), ("leaf2:swp1", 90.0), ("leaf3:h", 40.0))
    without: list[Case] = [
        each for each in thresholds(("leaf4:swp1", 90.0), ("leaf4:h", 40.0)) if "frr_bgp" not in each[0]
    ]
    ports = thresholds(*uplinks, ("leaf1:h", 40.0), ("leaf2:h", 40.0))
    assert fired([*ports, *without]) == {}


def test_a_port_without_a_link_has_no_lower_rate() -> None:
    """node_exporter shows -1 Mb/s then."""
    assert fired([("node_network_speed_bytes", (12_500_000_000, -125_000))]) == {}


def test_hosts_are_no_gateways_and_hash_as_they_like() -> None:
    """node_exporter has their VLAN interfaces and their sysctls, too."""
    assert fired([*CASES["GatewayMacDiffers"][:5], ('node_network_info{instance="h",device="vlan10"}', 0)]) == {}
    policy = "node_sysctl_net_ipv4_fib_multipath_hash_policy"
    hosts: list[Case] = [at(host, policy, -1) for host in "hijk"]
    assert fired([*SWITCHES, *(at(leaf, policy, 0) for leaf in "abc"), *hosts]) == {}


def test_one_switch_of_a_pair_may_be_down_for_maintenance() -> None:
    """Each rack has a pair of switches with one MAC address, and all racks use the same VLAN."""
    pairs: list[Case] = [
        (f'node_network_info{{instance="{leaf}",device="Vlan10",address="{rack}"}}', (1, None if leaf == "d" else 1))
        for leaf, rack in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"))
    ]
    assert fired([*SWITCHES, at("d", "sonic_queue_bytes_total", 0), *pairs]) == {}


def test_counters_that_begin_anew_are_no_floods() -> None:
    """An interface that was created again has received less than before."""
    again: list[Case] = [
        ('node_network_receive_bytes_total{device="c"}', (25, 0)),
        ('node_network_transmit_bytes_total{device="c"}', 0),
        ("node_network_transmit_bytes_total", 30), ("node_network_receive_bytes_total", 30),
    ]  # fmt: skip
    assert fired([*CASES["FloodsFillPort"][:2], *again]) == {}


def test_each_bfd_session_counts_where_the_exporter_has_no_interface() -> None:
    up, down = (f'frr_bfd_peer_state{{device="",peer="10.0.0.{number}"}}' for number in (1, 2))
    assert places([(up, 0), (down, -1)]) == {"a:10.0.0.2": 3}
