"""A tenant's RDMA through lossless ports and VXLAN: its class, marks and losslessness, and what headers leave of it.

The judges are arithmetic, tshark, rxe's own counters and what ports on both ends of a link say of each other.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import rocelab, rocelab_json
from tests.vm.lossless import MESSAGE, TUNNEL, goodput, grown, ports, written
from tests.vm.on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.vm.shared_fabric import SharedFabric

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
NAME: Final = "roce-tenant"
BOTTLENECK: Final = "spine1:swp3"
UPLINKS: Final = {"leaf1": "spine1:swp1", "leaf2": "spine1:swp2"}
"""The port of spine1 that each is at, once it has no other spine."""
VTEPS: Final = ("leaf1", "leaf2", "leaf3")
PATIENCE: Final = 60.0
H1, H2, H3 = "10.1.10.2", "10.1.10.3", "10.1.20.2"


def said(node: str, *argv: str) -> str:
    command = ["ip", "netns", "exec", f"rl-{NAME}.{node}", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module", autouse=True)
def fabric(shared_fabric: SharedFabric) -> Iterator[None]:
    shared_fabric.up(NAME)
    yield
    shared_fabric.turn_to("")  # it has one spine less


@pytest.mark.long
@pytest.mark.parametrize("target", ["h2", "h3"])
def test_a_pair_has_the_goodput_that_the_tunnels_headers_leave(target: str) -> None:
    """Bridged and routed: the links between switches are full, of which 50 bytes of each packet are no host's."""
    report = written(NAME, "h1", target)
    assert report["all"]["goodput_bps"] == pytest.approx(goodput(TUNNEL), rel=0.002)
    assert goodput(TUNNEL) < 0.99 * goodput(0), "a bound that can tell the two apart"


@pytest.mark.parametrize("target", [pytest.param("h2", marks=pytest.mark.long), "h3"])
def test_path_tells_the_tunnel_and_the_way_of_a_flow_as_a_capture_has_it(target: str, tmp_path: Path) -> None:
    """Bridged and routed, two flows of each uplink: the outer source port, the uplink, and what is behind it."""
    files = {uplink: tmp_path / f"{uplink}.pcap" for uplink in ("swp1", "swp2")}
    with (
        captured(f"rl-{NAME}.leaf1", "swp1", files["swp1"], "-Qout", "udp port 4789"),
        captured(f"rl-{NAME}.leaf1", "swp2", files["swp2"], "-Qout", "udp port 4789"),
    ):
        rocelab_json("rdma", "bw", "h1", target, "--iterations", "10", "--qps", "12", "--fabric", NAME)
    flows: dict[str, dict[int, int]] = {}
    for uplink, file in files.items():
        for ports_, addresses in fields(file, "vxlan && udp.dstport == 4791", "udp.srcport", "ip.src"):
            outer, inner = map(int, ports_.split(","))
            if addresses.endswith(H1):
                assert flows.setdefault(uplink, {}).setdefault(inner, outer) == outer
    assert flows.keys() == {"swp1", "swp2"}, "of twelve flows some take each way"
    leaf = {"h2": "leaf2", "h3": "leaf3"}[target]
    for uplink, sports in flows.items():
        for sport, outer in list(sports.items())[:2]:
            told = rocelab_json("path", "h1", target, "--sport", str(sport), "--fabric", NAME)
            ways = [f"leaf1:{uplink}", f"spine{uplink[-1]}:swp{leaf[-1]}", f"{leaf}:swp3"]
            assert told["paths"] == [["h1:eth1", *ways]]
            tunnels = [hop["outer"] and hop["outer"]["sport"] for hop in told["hops"][0]]
            assert tunnels == [None, outer, outer, None]
            assert {(hop["priority"], hop["queue"]) for hop in told["hops"][0]} == {(3, 3)}
    every = rocelab_json("path", "h1", target, "--fabric", NAME)["paths"]
    assert sorted(way[1] for way in every) == ["leaf1:swp1", "leaf1:swp2"]


def test_a_leafs_tunnels_get_a_dscp_of_their_own_and_their_old_one_back() -> None:
    """By ip(8), and by path: the priority that spines give it."""
    before, whole = tunnels("leaf1"), all_devices()
    number = str(rocelab_json("fault", "inject", "tunnel-dscp", "leaf1", "dscp=10", "--fabric", NAME)["number"])
    during = {name: tunnel["tos"] for name, tunnel in tunnels("leaf1").items()}
    assert during == {"vni10010": "0x28", "vni50010": "0x28"}
    hops = rocelab_json("path", "h1", "h3", "--fabric", NAME)["hops"][0]
    assert [hop["priority"] for hop in hops] == [3, 3, 0, 0]
    rocelab("fault", "heal", number, "--fabric", NAME)
    assert tunnels("leaf1") == before
    until_devices(whole)
    assert "has no tunnels" in rocelab("fault", "inject", "tunnel-dscp", "spine1", "--fabric", NAME, expect=2).stderr


def tunnels(node: str) -> dict[str, dict[str, Any]]:
    """What ip(8) says of each tunnel of a leaf, without its place in a bridge, whose timers run."""
    links = json.loads(said(node, "ip", "-json", "-d", "link", "show", "type", "vxlan"))
    return {link["ifname"]: link["linkinfo"]["info_data"] for link in links}


def devices(node: str) -> list[str]:
    """All of a node's own devices, VLANs and entries that no protocol has learnt.

    Of two interfaces with one MAC the kernel says either has the bridge's entry: left out, as timers are.
    """
    shown = """
    for kind in vxlan vlan; do ip -d -o link show type $kind; done |
        sed 's/ promiscuity [0-9]*//; s/ bridge_slave .*//'
    ip -o link show type veth
    bridge -d vlan show; bridge -d link show; bridge fdb show | grep permanent | sed 's/dev .* vlan/vlan/'
    for name in /proc/sys/net/ipv6/conf/vni*; do echo $name $(cat $name/disable_ipv6); done
    for name in $(ls /sys/class/net | grep vni); do ethtool -k $name | grep ': on'; done; true
    """
    return sorted(said(node, "sh", "-c", shown).splitlines())


def all_devices() -> dict[str, list[str]]:
    return {node: devices(node) for node in (*VTEPS, "h2")}


def until_devices(expected: dict[str, list[str]]) -> None:
    """Whom a leaf floods to is an entry among others, which zebra writes when EVPN has brought the route."""
    deadline = time.monotonic() + PATIENCE
    while (found := all_devices()) != expected:
        if time.monotonic() > deadline:
            assert found == expected
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("kind", "place", "words", "seen"),
    [
        ("tunnel-vni", "leaf2", ("of=10010", "vni=10011"), "vxlan id 10011"),
        ("gateway-mac", "leaf3", ("mac=02:1a:00:00:00:02",), "02:1a:00:00:00:02 vlan 20 master bridge permanent"),
        pytest.param(
            "nic-mac", "h2", ("mac=02:1a:00:06:00:01",), "link/ether 02:1a:00:06:00:01", marks=pytest.mark.long
        ),
    ],
)
def test_what_differs_in_an_overlay_is_as_it_was_when_it_is_healed(
    kind: str, place: str, words: tuple[str, ...], seen: str
) -> None:
    before = all_devices()
    assert seen not in "\n".join(before[place])
    number = str(rocelab_json("fault", "inject", kind, place, *words, "--fabric", NAME)["number"])
    assert seen in "\n".join(devices(place))
    again = rocelab("fault", "inject", kind, place, *words, "--fabric", NAME, expect=2)
    assert number in again.stderr
    rocelab("fault", "heal", number, "--fabric", NAME)
    until_devices(before)


@pytest.mark.parametrize(
    ("kind", "words", "refused"),
    [
        ("tunnel-vni", ("of=10010", "vni=10011"), "spine1 has no tunnel of VNI 10010: name a leaf with networks"),
        ("gateway-mac", (), "spine1 has no networks: name a leaf with networks"),
    ],
)
def test_a_switch_without_networks_has_nothing_of_it(kind: str, words: tuple[str, ...], refused: str) -> None:
    assert refused in rocelab("fault", "inject", kind, "spine1", *words, "--fabric", NAME, expect=2).stderr


def test_a_tunnel_that_was_made_anew_carries_what_it_did() -> None:
    """Behind faults that took it away: routed and bridged."""
    deadline = time.monotonic() + 60
    for host, address in (("h1", H2), ("h2", H3)):
        while subprocess.run(
            ["ip", "netns", "exec", f"rl-{NAME}.{host}", "ping", "-qc1", "-W1", address], check=False, timeout=60
        ).returncode:
            assert time.monotonic() < deadline, host


@pytest.fixture(scope="module")
def one_spine() -> None:
    """From now on leaf1 and leaf2 have spine1 alone: who writes to h3 meets at its port towards leaf3."""
    for leaf in UPLINKS:
        said(leaf, "ip", "link", "set", "swp2", "down")
    deadline = time.monotonic() + 60
    for leaf in UPLINKS:
        while True:
            (route,) = json.loads(said(leaf, "ip", "-json", "route", "show", "10.252.0.3"))
            if "nexthops" not in route and route["dev"] == "swp1":
                break
            assert time.monotonic() < deadline, route


@pytest.mark.usefixtures("one_spine")
def test_an_incast_through_tunnels_is_paused_and_marked_and_loses_nothing(tmp_path: Path) -> None:
    before = ports(NAME)
    with (
        captured(f"rl-{NAME}.spine1", "swp3", tmp_path / "spine.pcap", "-Qout", "udp port 4789"),
        captured(f"rl-{NAME}.h3", "eth1", tmp_path / "host.pcap", "-Qin", "udp port 4791"),
    ):
        report = written(NAME, "h1", "h3", "--pair", "h2:h3")
    after = ports(NAME)
    message = MESSAGE * 8 / report["all"]["window_s"]
    assert report["all"]["goodput_bps"] == pytest.approx(goodput(TUNNEL), abs=len(report["pairs"]) * message)
    for pair in report["pairs"]:
        assert pair["goodput_bps"] == pytest.approx(goodput(TUNNEL) / 2, abs=2 * message), "to the messages under way"
    dropped = [(port, name) for port in after for name in after[port] if "drop" in name]
    assert dropped
    assert [(*each, grown(before, after, *each)) for each in dropped if grown(before, after, *each)] == []
    for leaf, port in UPLINKS.items():
        pauses = grown(before, after, port, "tx_prio3_pause")
        assert pauses > 0
        assert pauses == grown(before, after, f"{leaf}:swp1", "rx_prio3_pause")
        assert grown(before, after, f"{leaf}:swp3", "tx_prio3_pause") > 0, "which passes it on to its host"
    marks = {port: grown(before, after, port, "queue3_ecn_marked") for port in after}
    assert {port for port, count in marks.items() if count} == {BOTTLENECK, "leaf1:swp1", "leaf2:swp1"}, "all outside"
    marked_at(tmp_path / "spine.pcap", tmp_path / "host.pcap", sum(marks.values()))


def marked_at(spine: Path, host: Path, counted: int) -> None:
    """What is marked outside is what the host has inside, sender by sender (RFC 6040 section 4.2)."""
    outer: Counter[tuple[str, str]] = Counter()
    for addresses, ecn, dscp, vni in fields(
        spine, "vxlan", "ip.src", "ip.dsfield.ecn", "ip.dsfield.dscp", "vxlan.vni"
    ):
        sender = addresses.split(",")[1]
        if set(dscp.split(",")) == {"26"}:
            assert vni == "50010", "routed, and so of the tenant"
            outer[sender, ecn.split(",")[0]] += 1
    inner: Counter[tuple[str, str]] = Counter()
    for sender, ecn, dscp in fields(host, "udp.dstport == 4791", "ip.src", "ip.dsfield.ecn", "ip.dsfield.dscp"):
        assert dscp == "26"
        inner[sender, ecn] += 1
    assert inner == outer
    assert inner[H1, "3"] + inner[H2, "3"] == counted
    assert min(inner[H1, "3"], inner[H2, "3"]) > 1000
    assert min(inner[H1, "2"], inner[H2, "2"]) > 0, "before Kmin nothing is marked"


@pytest.mark.long
@pytest.mark.usefixtures("one_spine")
def test_marks_on_outer_headers_slow_senders_down_by_cnps_through_the_tunnel(tmp_path: Path) -> None:
    """The spine marks the outer header, leaf3 copies the mark to the inner one, and h3's CNPs return in a tunnel.

    In CI, the test above has the marks inside and outside, and test_incast_with_dcqcn.py the CNPs of an incast.
    """
    without, before = pauses_of_an_incast(), ports(NAME)
    rocelab("qos", "set", "h1", "h2", "h3", "nic.cc.preset=paper", "--fabric", NAME)
    with captured(f"rl-{NAME}.spine1", "swp3", tmp_path / "back.pcap", "-Qin", "udp port 4789"):
        slowed = pauses_of_an_incast()
    after = ports(NAME)
    rocelab("qos", "set", "h1", "h2", "h3", "nic.cc.algorithm=off", "--fabric", NAME)
    handled = {host: grown(before, after, f"{host}:eth1", "rp_cnp_handled") for host in ("h1", "h2")}
    sent, marked = (grown(before, after, "h3:eth1", name) for name in ("np_cnp_sent", "np_ecn_marked_roce_packets"))
    assert marked == sum(grown(before, after, port, "queue3_ecn_marked") for port in after)
    assert grown(before, after, BOTTLENECK, "queue3_ecn_marked") > 0
    assert min(handled.values()) > 0
    assert sum(handled.values()) == sent
    cnps = fields(tmp_path / "back.pcap", "infiniband.bth.opcode == 0x81", "ip.dst", "ip.dsfield.dscp")
    assert Counter(addresses.split(",")[1] for addresses, _ in cnps) == {H1: handled["h1"], H2: handled["h2"]}
    assert {dscp for _, dscp in cnps} == {"48,48"}, "outside as inside, so that no pause holds them"
    assert slowed < without / 4


def pauses_of_an_incast() -> int:
    """Pauses of spine1 while h1 and h2 write to h3 and lose nothing."""
    before = ports(NAME)
    written(NAME, "h1", "h3", "--pair", "h2:h3", "--qps", "4")
    after = ports(NAME)
    return sum(grown(before, after, port, "tx_prio3_pause") for port in UPLINKS.values())
