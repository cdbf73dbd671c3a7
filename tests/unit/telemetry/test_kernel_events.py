"""Events parsed from rtnetlink messages, which are built here as <linux/rtnetlink.h> defines them."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_network

import pytest

from lab.telemetry.sample.kernel_events import KernelNews
from tests.unit.telemetry.made import newlink

NEW, GONE = 24, 25
DST, OIF, PRIORITY, TABLE = 1, 4, 6, 15
COMPAT = 252
"""What the header has of a table whose number does not fit (RT_TABLE_COMPAT)."""


def route(
    prefix: str,
    interface: int,
    table: int,
    kind: int = NEW,
    *,
    protocol: int = 186,
    metric: int = 20,
    of_type: int = 1,
) -> bytes:
    """A route, of BGP by default, as the kernel reports it: the table in the header, and in an attribute."""
    network = ip_network(prefix)
    content = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, network.prefixlen, 0, 0, min(table, COMPAT) if table > 255 else table,
        protocol, 0, of_type, 0,
    )  # fmt: skip
    for number, value in ((DST, network.network_address.packed), (OIF, struct.pack("=i", interface)),
                          (PRIORITY, struct.pack("=I", metric)), (TABLE, struct.pack("=I", table))):  # fmt: skip
        content += struct.pack("=HH", 4 + len(value), number) + value
    return struct.pack("=IHHII", 16 + len(content), kind, 0, 0, 0) + content


@pytest.fixture
def news() -> KernelNews:
    return KernelNews([{"name": "leaf1", "interfaces": {"2": "swp1", "9": "vlan4094"}}])


def test_a_route_has_its_table(news: KernelNews) -> None:
    told = [event for data in (route("10.252.0.2/32", 2, 254), route("10.1.10.2/32", 9, 1001))
            for event in news.events(7, 0, data)]  # fmt: skip
    assert [(each["prefix"], each["interfaces"], each["table"]) for each in told] == [
        ("10.252.0.2/32", ["swp1"], 254), ("10.1.10.2/32", ["vlan4094"], 1001),
    ]  # fmt: skip


@pytest.mark.parametrize(("number", "name"), [(6, "blackhole"), (7, "unreachable"), (8, "prohibit"), (9, "throw")])
def test_a_route_that_rejects_packets_has_its_type(news: KernelNews, number: int, name: str) -> None:
    (told,) = news.events(7, 0, route("10.1.10.2/32", 2, 254, protocol=3, of_type=number))
    assert told["type"] == name


def test_one_prefix_of_two_vrfs_is_two_routes(news: KernelNews) -> None:
    """Both tables have the same number in the header."""
    data = [route("10.1.10.2/32", 9, table) for table in (1001, 1002)]
    data.append(route("10.1.10.2/32", 9, 1001, GONE))
    told = [event for each in data for event in news.events(7, 0, each)]
    assert [(each["table"], each["gone"]) for each in told] == [(1001, False), (1002, False), (1001, True)]


def test_what_changes_nothing_is_left_out(news: KernelNews) -> None:
    again = [event for _ in range(2) for event in news.events(7, 0, route("10.1.10.2/32", 9, 1001))]
    assert len(again) == 1


@pytest.mark.parametrize("protocol", [186, 187, 188], ids=["BGP", "IS-IS", "OSPF"])
def test_a_daemon_has_one_route_to_a_prefix_whatever_its_metric(news: KernelNews, protocol: int) -> None:
    """A static route of another metric is a route beside it."""
    data = [route("10.1.10.2/32", 9, 254, protocol=protocol, metric=metric) for metric in (20, 30)]
    assert len([event for each in data for event in news.events(7, 0, each)]) == 1
    static = [route("10.1.10.2/32", 9, 254, protocol=4, metric=metric) for metric in (20, 30)]
    assert len([event for each in static for event in news.events(7, 0, each)]) == 2


def test_a_link_tells_its_mac_and_another_one_is_news(news: KernelNews) -> None:
    macs = ("02:1a:00:01:00:01", "02:1a:00:01:00:01", "02:00:00:00:dd:dd")
    told = [event for mac in macs for event in news.events(7, 0, newlink("swp1", mac))]
    assert [(each["interface"], each["mac"], each["mtu"], each["up"]) for each in told] == [
        ("swp1", macs[0], 9000, True), ("swp1", macs[2], 9000, True),
    ]  # fmt: skip


def test_a_member_of_a_bridge_or_a_bond_has_its_name_and_one_of_a_vrf_none(news: KernelNews) -> None:
    told = [event["master"] for kind in ("bridge", "vrf", "bond")
            for event in news.events(7, 0, newlink("swp1", master=9, member_of=kind))]  # fmt: skip
    assert told == ["vlan4094", "", "vlan4094"]
