"""The main job on the real thing: FRR 10 converges, verbs cross the spines, tshark reads them, nothing is left.

The judges are rdma(8), vtysh, interface counters and tshark.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import linear_regression

import pytest

from lab.rdma.rxe import device_name
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, forked, hosts, rocelab, rocelab_json, running

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
NAME = "clos-2x2"
HOSTS = ("h1", "h2", "h3", "h4")
DEVICES = Path("/sys/class/infiniband")
POLL = 0.002
"""Seconds between two looks: without them, the only CPU would look instead of running what is waited for."""


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout


def rdma_links() -> dict[str, str]:
    return {link["ifname"]: link["state"] for link in json.loads(said("rdma", "-j", "link"))}


@pytest.fixture(scope="module")
def before() -> snapshot.Snapshot:
    return snapshot.take()


@pytest.fixture(scope="class")
def fabric(before: snapshot.Snapshot) -> Iterator[str]:
    rocelab("up", TOPOLOGIES / "clos-2x2.yaml")
    yield NAME
    rocelab("down", "--fabric", NAME)
    assert before.differences(snapshot.take()) == []
    assert rdma_links() == {}


def sent_bytes(node: str, interface: str) -> int:
    links = json.loads(said("ip", "-n", f"rl-{NAME}.{node}", "-json", "-statistics", "link", "show", interface))
    return int(links[0]["stats64"]["tx"]["bytes"])


@pytest.mark.usefixtures("fabric")
class TestRunning:
    def test_every_host_has_an_active_device_and_every_session_is_up(self) -> None:
        assert rdma_links() == {device_name(NAME, host, "eth1"): "ACTIVE" for host in HOSTS}
        report = rocelab_json("status")
        assert report["healthy"]
        assert all(session["state"] == "Established" for node in report["nodes"] for session in node["sessions"])
        vty = f"/run/rocelab/fabrics/{NAME}/nodes/leaf1"
        peers = json.loads(said("vtysh", "--vty_socket", vty, "-c", "show bgp ipv4 unicast summary json"))["peers"]
        assert {peer["state"] for peer in peers.values()} == {"Established"}
        assert len(peers) == 2

    @pytest.mark.long
    def test_writes_of_several_pairs_cross_the_spines(self) -> None:
        """What the hosts were told was delivered must have left leaf1 by its uplinks, and headers on top of it.

        In CI, a ring of test_job_command.py crosses the spines, and test_tenant_rdma.py has writes of two pairs.
        """
        before = sum(sent_bytes("leaf1", uplink) for uplink in ("swp1", "swp2"))
        report = rocelab_json("rdma", "bw", "h1", "h3", "--pair", "h2:h4", "--duration", "1s")
        assert report["time"] == "virtual"  # as the machine was started (tests/shards.py)
        crossed = sum(sent_bytes("leaf1", uplink) for uplink in ("swp1", "swp2")) - before
        assert [(pair["src"], pair["dst"]) for pair in report["pairs"]] == [("h1", "h3"), ("h2", "h4")]
        payload = sum(pair["goodput_bps"] * pair["duration_s"] / 8 for pair in report["pairs"])
        assert all(pair["messages"] > 0 for pair in report["pairs"])
        assert payload < crossed

    @pytest.mark.long
    def test_tshark_reads_a_captured_exchange(self, tmp_path: Path) -> None:
        """In CI, test_analyse.py has tshark's columns of two links, and test_scenarios.py a capture."""
        file = tmp_path / "exchange.pcapng"
        with forked("capture", "h1:eth1", "leaf2--h3", "-o", file, "--json") as capture:
            while not file.exists() or file.stat().st_size == 0:
                assert not capture.is_over(POLL)
            rocelab("rdma", "bw", "h1", "h3", "--iterations", "5", "--size", "8KiB")
            capture.send_signal(signal.SIGTERM)
            ended = capture.end(60)
            assert ended.returncode == 0, ended.stderr
        fields = ("frame.interface_name", "infiniband.bth.opcode", "ip.dsfield.ecn")
        rows = said("tshark", "-r", str(file), "-Y", "infiniband", "-T", "fields", *_each("-e", fields)).splitlines()
        seen = {tuple(row.split("\t")[:2]) for row in rows}
        # RC RDMA WRITE Only or First, and the ACKNOWLEDGE that comes back (IBA vol. 1 section 9.2), on both links.
        for link in ("h1:eth1", "leaf2:swp3"):
            opcodes = {int(opcode) for name, opcode in seen if link in name or name in link}
            assert opcodes & {6, 10}, rows[:5]
            assert 17 in opcodes
        assert all(row.split("\t")[2] in {"2", "0"} for row in rows)
        assert all(link["dropped"] == 0 for link in json.loads(ended.stdout)["links"])

    @pytest.mark.parametrize(
        ("pace", "period"), [("500", 1 / 500), pytest.param("8Mbit", 1058 * 8 / 8e6, marks=pytest.mark.long)]
    )
    def test_crafted_packets_keep_the_pace_asked_for(self, tmp_path: Path, pace: str, period: float) -> None:
        """Frames of 1058 octets, headers included: the slope of all arrivals, by tshark, and what the sender says."""
        file = tmp_path / "paced.pcapng"
        with forked("capture", "leaf1:swp3", "-o", file, "--json") as capture:
            while not file.exists() or file.stat().st_size == 0:
                assert not capture.is_over(POLL)
            what = ("write", "--dst", "h3", "--payload-size", "984", "--count", "300", "--pace", pace)
            sent = rocelab_json("craft", *what, "--send", "h1:eth1")["sent"]
            capture.send_signal(signal.SIGTERM)
            assert capture.end(60).returncode == 0
        fields = ("frame.time_epoch", "frame.len")
        rows = said(
            "tshark", "-r", str(file), "-Y", "infiniband.bth.opcode == 10", "-T", "fields", *_each("-e", fields)
        )
        moments, sizes = zip(*(map(float, row.split("\t")) for row in rows.splitlines()), strict=True)
        assert (len(moments), set(sizes)) == (300, {1058.0})
        assert linear_regression(range(300), moments).slope == pytest.approx(period, rel=0.01)
        assert sent["packets_per_second"] == pytest.approx(1 / period, rel=0.01)


def _each(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def test_kill_while_devices_are_made_leaves_nothing(before: snapshot.Snapshot, tmp_path: Path) -> None:
    with running("up", hosts(tmp_path, "doomed", *HOSTS, rdma=True)) as process:
        while not any(DEVICES.iterdir()):
            assert process.poll() is None
            time.sleep(POLL)
        process.kill()
    rocelab("down", "--fabric", "doomed")
    assert rdma_links() == {}
    assert before.differences(snapshot.take()) == []


def test_a_device_that_made_up_fail_is_left_alone(before: snapshot.Snapshot, tmp_path: Path) -> None:
    """Its name is taken, by somebody's device in a namespace of his own."""
    said("ip", "netns", "add", "somebodys")
    try:
        for words in ("link add eth9 type veth peer name eth8", "link set eth9 up", "link set eth8 up"):
            said("ip", "-n", "somebodys", *words.split())
        taken = "own.h3.eth1"
        said("ip", "netns", "exec", "somebodys", "rdma", "link", "add", taken, "type", "rxe", "netdev", "eth9")
        done = rocelab("up", hosts(tmp_path, "own", *HOSTS, rdma=True), expect=1)
        assert f"no RDMA device {taken} on rl-own.h3:eth1: the name is taken" in done.stderr
        assert set(rdma_links()) == {taken}
        said("rdma", "link", "delete", taken)
    finally:
        said("ip", "netns", "delete", "somebodys")
    said("umount", "/run/netns")  # which ip made a mount
    if "/run/netns" not in before.files:
        Path("/run/netns").rmdir()
    assert before.differences(snapshot.take()) == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["one-leaf", "incast"])
def test_every_lossless_topology_of_ours_converges_and_leaves_nothing(before: snapshot.Snapshot, name: str) -> None:
    rocelab("up", TOPOLOGIES / f"{name}.yaml", "--no-rdma")
    try:
        said_by_tc = said("ip", "netns", "exec", f"rl-{name}.leaf1", "tc", "-j", "qdisc", "show", "dev", "swp1")
        assert json.loads(said_by_tc)[0]["kind"] == f"rl_{name.replace('-', '_')}"
        nodes = rocelab_json("status")["nodes"]
        assert all(session["state"] == "Established" for node in nodes for session in node["sessions"])
    finally:
        rocelab("down", "--fabric", name)
    assert before.differences(snapshot.take()) == []
    assert not Path("/sys/fs/bpf/rocelab").exists()
    deadline = time.monotonic() + 20  # the kernel frees programs when nobody can be running them any more
    while "Qdisc_ops" in said("bpftool", "struct_ops", "list"):
        assert time.monotonic() < deadline


@pytest.mark.long
def test_a_delay_is_kept_both_ways(before: snapshot.Snapshot, tmp_path: Path) -> None:
    file = tmp_path / "slow.yaml"
    file.write_text(
        """
name: slow
nodes:
  leaf1: {role: leaf}
  h1: {role: host, rdma: false}
  h2: {role: host, rdma: false}
links:
  - {ends: [h1, leaf1], rate: 100Mbit, delay: 30ms}
  - {ends: [h2, leaf1], rate: 100Mbit}
"""
    )
    rocelab("up", file)
    try:
        report = said("ip", "netns", "exec", "rl-slow.h1", "ping", "-nqc5", "-i.3", "10.0.0.3")
        fastest = float(report.split("= ")[1].split("/")[0])
        assert 60 <= fastest < 75
    finally:
        rocelab("down", "--fabric", "slow")
    assert before.differences(snapshot.take()) == []
