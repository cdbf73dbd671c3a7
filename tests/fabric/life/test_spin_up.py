"""A fabric comes up, forwards by every path, shows itself truly, and goes without a trace.

The judges are FRR's own show commands, the kernel's tables and ping, never rocelab's opinion of itself.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.kernel.process import process
from lab.model.load import read_topology
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.patience import PATIENCE

pytestmark = pytest.mark.fabric
NAME = "spin"
RUN = Path("/run/rocelab/fabrics") / NAME


@pytest.fixture(scope="module")
def before() -> snapshot.Snapshot:
    return snapshot.take()


@pytest.fixture(scope="module")
def fabric(before: snapshot.Snapshot) -> Iterator[str]:
    rocelab("up", TOPOLOGIES / "clos-2x4.yaml", "--name", NAME, "--no-rdma")
    yield NAME
    rocelab("down", "--fabric", NAME)
    assert before.differences(snapshot.take()) == []


def in_node(node: str, *argv: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", f"rl-{NAME}.{node}", *argv],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def vtysh(node: str, command: str) -> str:
    return in_node(node, "vtysh", "--vty_socket", str(RUN / "nodes" / node), "-c", command)


def forwarded(node: str) -> int:
    """IPv4 packets that a node has sent on."""
    return int(in_node(node, "nstat", "-asz", "IpForwDatagrams").split()[-2])


@pytest.mark.usefixtures("fabric")
class TestConverged:
    def test_every_host_reaches_every_other(self) -> None:
        addresses = {f"h{i + 1}": f"10.0.0.{2 * i + 1}" for i in range(8)}
        for source in addresses:
            pings = [
                subprocess.Popen(
                    ["ip", "netns", "exec", f"rl-{NAME}.{source}", "ping", "-nqc1", "-W5", target],
                    stdout=subprocess.DEVNULL,
                )
                for target in addresses.values()
            ]
            assert [ping.wait() for ping in pings] == [0] * 8

    def test_names_of_nodes_are_known_in_nodes_and_nowhere_else(self) -> None:
        """getent(1) asks as every program does."""
        assert in_node("h1", "getent", "hosts", "h3").split() == ["10.0.0.5", "h3", "h3-eth1"]
        assert in_node("leaf1", "getent", "ahostsv4", "spine2").split()[0] == "10.254.0.2"
        assert "1 received" in in_node("h1", "ping", "-qc1", "-W5", "h3")
        here = subprocess.run(["getent", "hosts", "h3-eth1"], capture_output=True, check=False, timeout=PATIENCE)
        assert here.returncode == 2, "a name that is not known (getent(1))"

    def test_frr_has_each_remote_host_by_both_spines_with_ipv6_next_hops(self) -> None:
        """RFC 8950: an IPv4 route whose next hop is an IPv6 link-local address."""
        route = json.loads(vtysh("leaf1", "show bgp ipv4 unicast 10.0.0.12/31 json"))
        multipath = [path for path in route["paths"] if path.get("multipath")]
        assert len(multipath) == 2
        hops = [hop for path in multipath for hop in path["nexthops"]]
        assert any(hop["afi"] == "ipv6" and hop["ip"].startswith("fe80::") for hop in hops)
        assert {path["peer"]["interface"] for path in multipath} == {"swp1", "swp2"}

    def test_each_session_is_established_with_its_own_asn_and_bfd_up(self) -> None:
        spine = json.loads(vtysh("spine1", "show bgp ipv4 unicast summary json"))
        assert {peer["state"] for peer in spine["peers"].values()} == {"Established"}
        assert len({peer["remoteAs"] for peer in spine["peers"].values()}) == 4
        bfd = json.loads(vtysh("spine1", "show bfd peers json"))
        assert len(bfd) == 4

    def test_the_kernel_hashes_by_ports_with_a_seed_of_each_switch(self) -> None:
        seeds = set()
        for leaf in ("leaf1", "leaf2"):
            assert in_node(leaf, "cat", "/proc/sys/net/ipv4/fib_multipath_hash_policy").strip() == "3"
            seeds.add(in_node(leaf, "cat", "/proc/sys/net/ipv4/fib_multipath_hash_seed").strip())
        assert len(seeds) == 2
        assert "0" not in seeds

    def test_a_switch_sends_no_redirect(self) -> None:
        """It has a route back out of the port that the packets came in by (RFC 1812, 5.2.7.2)."""
        route = ("route", "add", "10.99.0.1/32", "via", "10.0.0.1", "dev", "swp3")
        in_node("leaf1", "ip", *route)
        try:
            before = forwarded("leaf1")
            subprocess.run(
                ["ip", "netns", "exec", f"rl-{NAME}.h1", "ping", "-nqc2", "-i0.2", "-W1", "10.99.0.1"],
                stdout=subprocess.DEVNULL, check=False, timeout=PATIENCE,
            )  # fmt: skip
            assert forwarded("leaf1") >= before + 2
            assert "IcmpOutRedirects 0" in " ".join(in_node("leaf1", "nstat", "-asz", "IcmpOutRedirects").split())
        finally:
            in_node("leaf1", "ip", "route", "del", "10.99.0.1/32")

    @pytest.mark.parametrize("node", ["h1", "leaf1", "spine1"])
    def test_no_interface_takes_or_sends_a_redirect(self, node: str) -> None:
        """The kernel sends where either says so, and hosts accept so too (ip-sysctl.rst of the kernel)."""
        ports = json.loads(in_node(node, "ip", "-json", "link", "show", "type", "veth"))
        for where in ("all", *(port["ifname"] for port in ports)):
            for name in ("ipv4/conf/{}/accept_redirects", "ipv4/conf/{}/send_redirects"):
                assert in_node(node, "cat", f"/proc/sys/net/{name.format(where)}").strip() == "0", (where, name)
        for port in ports:
            accepts = in_node(node, "cat", f"/proc/sys/net/ipv6/conf/{port['ifname']}/accept_redirects")
            assert accepts.strip() == "0"

    def test_the_running_configuration_is_the_rendered_one(self) -> None:
        text = vtysh("leaf3", "show running-config")
        assert "router bgp 4200100003" in text
        assert "neighbor swp1 interface peer-group FABRIC" in text
        assert "bgp bestpath as-path multipath-relax" in text

    def test_no_offload_hides_frames_from_a_capture(self) -> None:
        features = in_node("leaf1", "ethtool", "-k", "swp1")
        for feature in ("tx-checksum-ip-generic", "generic-segmentation-offload", "generic-receive-offload"):
            assert f"{feature}: off" in features

    def test_links_carry_our_mark(self) -> None:
        link = json.loads(in_node("leaf1", "ip", "-json", "link", "show", "swp1"))[0]
        assert link["altnames"] == [f"rl-{NAME}.leaf1-swp1"]

    def test_status_agrees(self) -> None:
        report = rocelab_json("status", "--fabric", NAME)
        assert report["healthy"]
        assert len(report["nodes"]) == 14
        leaf = next(node for node in report["nodes"] if node["name"] == "leaf1")
        of_frr_10 = {"mgmtd": True}
        assert leaf["daemons"] | of_frr_10 == {"zebra": True, "bfdd": True, "bgpd": True} | of_frr_10
        assert leaf["bfd"].keys() == {"swp1", "swp2"}
        assert set(leaf["bfd"].values()) <= {"up", "starting"}
        families = json.loads(vtysh("leaf1", "show bgp summary json")).values()
        for session in leaf["sessions"]:
            peers = [family["peers"][session["interface"]] for family in families if "peers" in family]
            assert session["prefixes"] == sum(peer["pfxRcd"] for peer in peers) > 0

    def test_ls_lists_it(self) -> None:
        assert {"fabric": NAME, "state": "up", "nodes": 14, "place": "here"} in rocelab_json("ls")

    def test_exec_runs_in_the_node_and_hands_on_the_exit_code(self) -> None:
        assert rocelab("exec", "h1", "--fabric", NAME, "--", "hostname", "-I").returncode == 0
        assert "10.0.0.1/31" in rocelab("exec", "h1", "--", "ip", "-4", "-brief", "addr", "show", "eth1").stdout
        rocelab("exec", "h1", "--", "sh", "-c", "exit 7", expect=7)

    def test_vtysh_talks_to_the_router(self) -> None:
        assert "leaf2#" not in rocelab("vtysh", "leaf2", "-c", "show bgp summary").stdout
        assert "4200001000" in rocelab("vtysh", "leaf2", "-c", "show bgp summary").stdout
        assert "h1 is a host" in rocelab("vtysh", "h1", expect=2).stderr


def test_status_tells_a_dead_daemon_and_a_lost_link(fabric: str) -> None:
    """The checker's negative case; last in the module, because it breaks the fabric."""
    in_node("leaf4", "ip", "link", "set", "swp1", "down")
    pid = int((RUN / "nodes" / "leaf3" / "bgpd.pid").read_text())
    process.kill([pid], meant=lambda _: True)  # and wait until it has ended
    done = rocelab("status", "--fabric", fabric, expect=1)
    assert "bgpd(DEAD)" in done.stdout
    report = json.loads(rocelab("status", "--fabric", fabric, "--json", expect=1).stdout)
    unwell = {node["name"] for node in report["nodes"] if not node["healthy"]}
    assert {"leaf3", "leaf4"} <= unwell
    assert "h1" not in unwell


READ = {file: read_topology(file) for file in sorted(TOPOLOGIES.glob("*.yaml"))}
PLAIN = [file for file, topology in READ.items() if topology.qos is None and topology.overlay is None]
"""Those with lossless ports or an overlay need a kernel that has more, and are brought up in tests/vm."""


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.stem)
def test_every_topology_of_ours_converges(file: Path) -> None:
    before = snapshot.take()
    rocelab("up", file, "--name", "each", "--no-rdma")
    try:
        assert rocelab_json("status", "--fabric", "each")["healthy"]
    finally:
        rocelab("down", "--fabric", "each")
    assert before.differences(snapshot.take()) == []
