"""Links carry what the topology says: rate and MTU against the standards' arithmetic, several NICs to a host."""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fabric.command import rocelab, rocelab_json
from tests.patience import PATIENCE

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

TEXT = """
name: links
defaults: {rate: 100Mbit, mtu: 9000}
nodes:
  leaf1: {role: leaf}
  leaf2: {role: leaf}
  spine1: {role: spine}
  h1: {role: host, rdma: false}
  h2: {role: host, rdma: false}
links:
  - {ends: [leaf1, spine1]}
  - {ends: [leaf2, spine1], mtu: 1500}
  - {ends: [h1, leaf1]}
  - {ends: [h1, leaf2]}
  - {ends: [h2, leaf1], rate: 20Mbit}
"""
WIRE = 24
COUNT = """
import time
def sent():
    line = next(line for line in open("/proc/net/dev") if line.lstrip().startswith("eth1:"))
    return [int(word) for word in line.split()[9:11]]
began, before = time.monotonic(), sent()
time.sleep(2)
after, ended = sent(), time.monotonic()
print(ended - began, after[0] - before[0], after[1] - before[1])
"""
"""Seconds, at least those between the two looks, and octets and packets that were sent."""


@pytest.fixture(scope="module", params=["ipv4", "ipv6"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("links") / "links.yaml"
    file.write_text(TEXT + f"routing: {{host_family: {request.param}}}\n")
    rocelab("up", file)
    yield request.param
    rocelab("down", "--fabric", "links")


def in_words(node: str, *argv: str) -> list[str]:
    return ["ip", "netns", "exec", f"rl-links.{node}", *argv]


def in_node(node: str, *argv: str, expect: int = 0) -> str:
    done = subprocess.run(in_words(node, *argv), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def address(family: str, node: str, nic: str) -> str:
    return next(
        str(entry["local"])
        for link in json.loads(in_node(node, "ip", "-json", "-4" if family == "ipv4" else "-6", "addr", "show", nic))
        for entry in link["addr_info"]
        if entry["scope"] == "global"
    )


@contextlib.contextmanager
def iperf_server(node: str) -> Iterator[None]:
    """An iperf3 server that listens; it serves one test and ends."""
    command = in_words(node, "iperf3", "-s", "-1", "--forceflush")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            assert server.poll() is None
        try:
            yield
            server.communicate(timeout=PATIENCE)
        finally:
            server.kill()


@pytest.mark.parametrize(("node", "rate"), [("h1", 100e6), ("h2", 20e6)])
def test_a_link_carries_no_more_than_its_rate_with_preamble_and_gap_counted(
    family: str, node: str, rate: float
) -> None:
    """The kernel's count of iperf3's packets in 2 s, with 24 octets more for each (IEEE 802.3 clauses 3.1.1 and
    4.4.2).

    It may be less, on a busy machine and elsewhere; tests/vm/kernel/test_tc.py has the rate itself, in virtual time.
    """
    route = json.loads(in_node(node, "ip", "-json", "-4" if family == "ipv4" else "-6", "route", "show", "default"))
    gateway = min(route, key=lambda each: int(each["metric"]))["gateway"]
    with iperf_server("leaf1"), subprocess.Popen(in_words(node, "iperf3", "-c", gateway, "-t", "4")) as client:
        seconds, octets, packets = map(float, in_node(node, "python3", "-c", COUNT).split())
        assert client.wait(PATIENCE) == 0
    shaper = json.loads(in_node(node, "tc", "-json", "qdisc", "show", "dev", "eth1"))[0]
    assert (shaper["kind"], shaper["options"]["rate"] * 8) == ("tbf", rate)
    assert packets > 0
    assert 8 * (octets + WIRE * packets - shaper["options"]["burst"]) <= rate * seconds


def test_what_a_full_queue_drops_is_what_the_receiver_misses(family: str) -> None:
    """60 Mb/s of UDP into a 20 Mb/s link: the drops that status shows are what h1 sent and h2 did not receive.

    By the kernel's counts of packets: a receiver that waits for a CPU does not hear of what was dropped last.
    """
    before = drops("leaf1", "swp3"), packets("h1", "tx"), packets("h2", "rx")
    target = address(family, "h2", "eth1")
    with iperf_server("h2"):
        in_node("h1", "iperf3", "-c", target, "-u", "-b", "60M", "-l", "1000", "-t", "2", "-J")

    def missing() -> int:
        return (packets("h1", "tx") - before[1]) - (packets("h2", "rx") - before[2])

    deadline = time.monotonic() + PATIENCE  # what waits in the queue still comes
    while (lost := missing()) != missing():
        assert time.monotonic() < deadline
    assert lost > 1000
    assert drops("leaf1", "swp3") - before[0] == pytest.approx(lost, rel=0.02)


def packets(node: str, direction: str) -> int:
    (link,) = json.loads(in_node(node, "ip", "-json", "-s", "link", "show", "eth1"))
    return int(link["stats64"][direction]["packets"])


def drops(node: str, interface: str) -> int:
    report = rocelab_json("status", "--fabric", "links")
    found = next(entry for entry in report["nodes"] if entry["name"] == node)
    return int(found["interfaces"][interface]["drops"])


def test_the_smaller_mtu_is_the_one_that_counts(family: str) -> None:
    """A DF probe one byte too long stops at the 1500-byte link; one that fits passes (RFC 1191, RFC 8201)."""
    header = 28 if family == "ipv4" else 48
    target = address(family, "h1", "eth2")
    in_node("h2", "ping", "-nqc1", "-W5", "-Mdo", f"-s{1500 - header}", target)
    in_node("h2", "ping", "-nqc1", "-W2", "-Mdo", f"-s{1501 - header}", target, expect=1)


def test_what_leaves_a_nic_keeps_to_it(family: str) -> None:
    """h1 has two NICs on two leaves: a packet from eth2's address must not leave by eth1."""
    source, target = address(family, "h1", "eth2"), address(family, "h2", "eth1")
    route = json.loads(in_node("h1", "ip", "-json", "route", "get", target, "from", source))[0]
    assert route["dev"] == "eth2"
    in_node("h1", "ping", "-nqc1", "-W5", "-I", source, target)


def test_a_delay_without_netem_is_refused(tmp_path: Path) -> None:
    probe = subprocess.run(
        ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        capture_output=True,
        check=False,
    )
    file = tmp_path / "slow.yaml"
    file.write_text(TEXT.replace("name: links", "name: slow").replace("rate: 20Mbit", "rate: 20Mbit, delay: 20ms"))
    if probe.returncode != 0:
        assert "link h2:eth1--leaf1:swp3: delay needs" in rocelab("up", file, expect=4).stderr
        return
    rocelab("up", file)
    try:
        said = subprocess.run(
            ["ip", "netns", "exec", "rl-slow.h2", "ping", "-nqc5", "-i.2", "10.0.0.4"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        least = float(said.split("= ")[1].split("/")[0])  # the first one may wait for a neighbour's answer besides
        assert 40 <= least < 41
    finally:
        rocelab("down", "--fabric", "slow")
