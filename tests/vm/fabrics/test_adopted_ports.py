"""Lossless ports on a lab that others have made: it keeps its sessions, and has back what it had before.

h1 -- r1 -- h3      namespaces, links and addresses by plain ip(8), of processes as containers have; Docker is a
h2 --+              script. ip(8), tc(8) and ethtool(8) judge what was, what is, and what is again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric import snapshot
from tests.fabric.command import injected, rocelab, rocelab_json
from tests.fake_docker import Docker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.vm

NAME: Final = "theirs"
NODES: Final = ("h1", "h2", "h3", "r1")
MTU: Final = 4300
LAB: Final = f"""
name: {NAME}
topology:
  defaults: {{kind: linux}}
  nodes: {{h1: {{}}, h2: {{}}, h3: {{}}, r1: {{image: frr}}}}
  links:
    - endpoints: ["h1:eth1", "r1:eth1"]
    - endpoints: ["h2:eth1", "r1:eth2"]
    - endpoints: ["h3:eth1", "r1:eth3"]
"""
TBF: Final = (
    "tc qdisc add dev eth1 root handle 1: tbf rate 80mbit burst 9000 limit 100000 overhead 24 linklayer ethernet"
)
LOOKED: Final = (
    "ip -details -json -pretty address",
    "ip -json -pretty route",
    "tc -json -pretty qdisc show",
    snapshot.TC_FILTERS,
    "for n in $(ls /sys/class/net); do ethtool -k $n; done",
    "grep -s . /sys/class/net/*/queues/*/rps_cpus",
)
"""What there is of a node."""
SENT: Final = 12_000
PAYLOAD: Final = 1000
SEND: Final = f"""
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 26 << 2)
for _ in range({SENT}):
    out.sendto(bytes({PAYLOAD}), ("10.0.3.2", 9))
"""
TALK: Final = """
import socket, sys
if sys.argv[1:]:
    line = socket.create_connection((sys.argv[1], 9000)).makefile("rw")
    for word in sys.stdin:
        line.write(word); line.flush()
        print(line.readline(), end="", flush=True)
else:
    listening = socket.create_server(("", 9000))
    print(flush=True)
    line = listening.accept()[0].makefile("rw")
    for word in line:
        line.write(word); line.flush()
"""


class Theirs:
    """The lab: a process for each node, whose namespace it is."""

    def __init__(self, pids: dict[str, int], file: Path) -> None:
        self.pids = pids
        self.file = file

    def enter(self, node: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.pids[node]}/ns/net"]

    def sh(self, node: str, script: str) -> str:
        """What a script prints in a node, with a /sys of its own."""
        words = [*self.enter(node), "unshare", "--mount", "sh", "-ec", f"mount -t sysfs none /sys; {script}"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout

    def looked(self) -> list[str]:
        """All of every node, line by line."""
        script = "; ".join(f"{words} || true" for words in LOOKED)
        return [f"{node} {line.strip()}" for node in NODES for line in self.sh(node, script).splitlines()]

    def talk(self, node: str, *words: str) -> subprocess.Popen[str]:
        command = [*self.enter(node), "python3", "-c", TALK, *words]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def their_lab(folder: Path) -> Iterator[Theirs]:
    """Their lab; afterwards, when rocelab has taken down what is its own, all of it is as it was."""
    (folder / "bin").mkdir()
    docker = Docker(folder / "bin")
    (folder / "theirs.clab.yml").write_text(LAB)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        pids = {}
        for node in NODES:
            words = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            assert process.stdin is not None
            assert process.stdout is not None
            stack.callback(process.stdin.close)
            process.stdout.readline()
            pids[node] = process.pid
            docker.add(NAME, node, pid=process.pid)
        lab = Theirs(pids, folder / "theirs.clab.yml")
        build(lab)
        before, machine = lab.looked(), snapshot.take()
        yield lab
        rocelab("down", "--all")
        assert lab.looked() == before
        assert machine.differences(snapshot.take()) == []


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    """A lab for one test."""
    with their_lab(tmp_path) as lab:
        yield lab


@pytest.fixture(scope="class")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    """A lab whose ports are adopted once for a class."""
    with their_lab(tmp_path_factory.mktemp("adopted")) as lab:
        adopt(lab)
        yield lab


def build(lab: Theirs) -> None:
    lab.sh("r1", "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1")
    for number, host in enumerate(("h1", "h2", "h3"), start=1):
        near, far = f"address add 10.0.{number}.2/24 dev eth1", f"address add 10.0.{number}.1/24 dev eth{number}"
        lab.sh("r1", f"ip link add eth{number} mtu {MTU} type veth peer name eth1 mtu {MTU} netns {lab.pids[host]}")
        lab.sh("r1", f"ip {far}; ip link set eth{number} addrgenmode none up")
        lab.sh(host, f"ip link set lo up; ip {near}; ip link set eth1 addrgenmode none up")
        lab.sh(host, f"ip route add default via 10.0.{number}.1")
        lab.sh(host, "until ip link show eth1 | grep -q 'state UP'; do sleep 0.02; done")
    lab.sh("h2", TBF)
    lab.sh("h3", "ip link set eth1 txqueuelen 0")  # as containerlab makes them


def adopt(lab: Theirs) -> None:
    rocelab("adopt", lab.file, "--qos", "pfc-ecn", "--rate", "100Mbit")


def kinds(lab: Theirs, node: str) -> dict[str, str]:
    """The root qdisc of each device, as tc says."""
    told = json.loads(lab.sh(node, "tc -json qdisc show"))
    return {each["dev"]: each["kind"] for each in told if each.get("root")}


class TestAdopted:
    """In this order on one lab: the drain comes last, because it changes a port."""

    def test_two_senders_of_one_link_are_paused_and_nothing_is_lost(self, adopted: Theirs) -> None:
        assert kinds(adopted, "r1") == dict.fromkeys(("lo", "eth1", "eth2", "eth3"), f"rl_{NAME}")
        senders = [subprocess.Popen([*adopted.enter(host), "python3", "-c", SEND]) for host in ("h1", "h2")]
        trees = rocelab_json("congestion", "--for", "0.5s")
        assert [(tree["priority"], tree["end"]) for tree in trees] == [(3, "r1:eth3")]
        assert {pause["peer"] for pause in trees[0]["pauses"]} == {"h1:eth1", "h2:eth1"}
        assert [sender.wait(120) for sender in senders] == [0, 0]
        adopted.sh("h1", "ping -q -c 1 -W 10 -Q 104 10.0.3.2")  # of the same class, it comes behind all that waited
        router = rocelab_json("counters", "r1")["nodes"]["r1"]["interfaces"]
        assert router["eth3"]["tx_prio3_packets"] == 2 * SENT + 1
        assert sum(router[f"eth{number}"].get("tx_prio3_pause", 0) for number in (1, 2)) > 0
        told = rocelab_json("counters")
        assert told["unbalanced"] == []
        each = [names for node in told["nodes"].values() for names in node["interfaces"].values()]
        assert [name for names in each for name in names if "_drop_" in name] == []

    @pytest.mark.long
    @pytest.mark.usefixtures("adopted")
    def test_pauses_that_are_sent_there_are_counted_and_told(self) -> None:
        rocelab("craft", "pfc", "--classes", "3=65535", "--count", "5", "--send", "h1:eth1")
        router = rocelab_json("counters", "r1")["nodes"]["r1"]["interfaces"]
        assert {name: router["eth1"].get(name, 0) for name in ("rx_prio3_pause", "rx_prio4_pause")} == {
            "rx_prio3_pause": 5, "rx_prio4_pause": 0
        }  # fmt: skip
        ports = rocelab_json("qos", "show")["nodes"]["r1"]["ports"]
        assert {name: (port["rate"], port["mtu"], port["kernel_differs"]) for name, port in ports.items()} == {
            f"eth{number}": (100_000_000, MTU, []) for number in (1, 2, 3)
        }

    @pytest.mark.long
    def test_a_drain_and_other_changes_go_with_the_ports(self, adopted: Theirs) -> None:
        rocelab("qos", "set", "h3", "nic.drain=50Mbit")
        assert kinds(adopted, "h3")["rx-eth1"] == f"rl_{NAME}"
        adopted.sh("h1", "ping -q -c 3 -i 0.01 -W 10 10.0.3.2")


@pytest.mark.long
def test_without_pfc_two_senders_of_one_link_are_not_paused_and_the_buffer_drops(theirs: Theirs) -> None:
    said = rocelab("adopt", theirs.file, "--qos", "lossy", "--rate", "100Mbit").stderr
    assert "h1:eth1 h2:eth1 h3:eth1: nic.cc: congestion control limits QPs of RDMA devices only" in said
    senders = [subprocess.Popen([*theirs.enter(host), "python3", "-c", SEND]) for host in ("h1", "h2")]
    assert [sender.wait(120) for sender in senders] == [0, 0]
    theirs.sh("h1", "ping -q -c 1 -W 10 -Q 104 10.0.3.2")
    told = rocelab_json("counters", "--all")
    assert told["unbalanced"] == []
    ports = [port for node in told["nodes"].values() for port in node["interfaces"].values()]
    assert [name for port in ports for name, count in port.items() if "pause" in name and count] == []
    router = told["nodes"]["r1"]["interfaces"]["eth3"]
    assert router["queue3_drop_shared_packets"] == 2 * SENT + 1 - router["tx_prio3_packets"] > 0


@pytest.mark.long
def test_without_pfc_the_nics_slow_two_senders_down_and_nothing_is_lost(theirs: Theirs) -> None:
    """Two QPs have at most 256 packets under way, 1.07 MB: more than Kmin, 150 KB; a group drops above 1.9 MB."""
    said = rocelab("adopt", theirs.file, "--qos", "lossy", "--rate", "100Mbit", "--rdma").stderr
    assert "congestion control limits QPs" not in said
    rocelab("rdma", "bw", "h1", "h3", "--pair", "h2:h3", "--duration", "1", "--size", "4KiB")
    told = rocelab_json("counters", "--all")
    assert told["unbalanced"] == []
    each = ((f"{node}:{name}", port) for node, of in told["nodes"].items() for name, port in of["interfaces"].items())
    ports = {place: {name: count for name, count in port.items() if count} for place, port in each}
    names = {name for port in ports.values() for name in port}
    assert [name for name in names if "pause" in name or "drop" in name or name == "np_cnp_no_qp"] == []
    marked = ports["r1:eth3"]["queue3_ecn_marked"]
    assert ports["h3:eth1"]["np_ecn_marked_roce_packets"] == marked > 0
    senders = [ports["h1:eth1"], ports["h2:eth1"]]
    handled, ignored = (sum(sender.get(f"rp_cnp_{what}", 0) for sender in senders) for what in ("handled", "ignored"))
    assert handled > 0
    assert handled + ignored == ports["h3:eth1"]["np_cnp_sent"]  # those of a QP that has ended meanwhile are ignored


def test_a_connection_lives_while_ports_come_and_go(theirs: Theirs) -> None:
    with theirs.talk("h3") as server:
        assert server.stdout is not None
        server.stdout.readline()
        with theirs.talk("h1", "10.0.3.2") as client:
            assert client.stdin is not None
            assert client.stdout is not None
            for step in (lambda: None, lambda: adopt(theirs), lambda: rocelab("down", "--all")):
                step()
                client.stdin.write("word\n")
                client.stdin.flush()
                assert client.stdout.readline() == "word\n"


@pytest.mark.long
def test_what_somebody_else_has_put_there_since_stays(theirs: Theirs) -> None:
    adopt(theirs)
    theirs.sh("h1", "tc qdisc replace dev eth1 root handle 77: pfifo limit 5")
    rocelab("down", "--all")
    assert kinds(theirs, "h1")["eth1"] == "pfifo"
    theirs.sh("h1", "tc qdisc del dev eth1 root")


CALLS: Final = (("netlink", 9), ("qdisc", 1), ("qdisc", 2), ("mount", 7), ("bpf", 3), ("journal", 3))
"""Where adopting is killed: only the first of them is not `long`. The fixture compares what is left."""


@pytest.mark.parametrize(
    ("call", "number"), [CALLS[0], *(pytest.param(*each, marks=pytest.mark.long) for each in CALLS[1:])]
)
def test_an_adopting_that_is_killed_is_undone(theirs: Theirs, call: str, number: int) -> None:
    words = ("adopt", str(theirs.file), "--qos", "pfc-ecn", "--rate", "100Mbit")
    assert injected(f"{call}:{number}:after:SIGKILL", *words).returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "number"), [("netlink", 5), ("qdisc", 1), ("netlink", 2), ("mount", 2), ("umount", 5)]
)
def test_a_down_that_is_killed_is_finished_by_the_next(theirs: Theirs, call: str, number: int) -> None:
    adopt(theirs)
    assert injected(f"{call}:{number}:before:SIGKILL", "down", "--all").returncode == -signal.SIGKILL


@pytest.mark.long
def test_what_could_not_be_put_back_is_left_alone(theirs: Theirs) -> None:
    for kind, device, said in (
        ("root fq_codel", "eth1", "h1:eth1 has a qdisc fq_codel"),
        ("clsact", "eth1", "h1:eth1 has filters of its own"),
        ("clsact", "lo", "h1:lo has filters of its own"),
    ):
        theirs.sh("h1", f"tc qdisc add dev {device} {kind}")
        before = theirs.looked()
        assert said in rocelab("adopt", theirs.file, "--qos", "pfc-ecn", expect=4).stderr
        assert theirs.looked() == before
        rocelab("adopt", theirs.file)
        rocelab("down", "--all")
        assert theirs.looked() == before
        theirs.sh("h1", f"tc qdisc del dev {device} {kind}")


@pytest.mark.long
def test_what_cannot_be_a_port_is_told(theirs: Theirs) -> None:
    for words, said in (
        (("--qos", "loud"), "--qos loud is no preset"),
        (("--rate", "fast"), "--rate fast is no rate"),
        (("--qos", "pfc-ecn", "--rate", "1bit"), "--rate 1bit is no rate"),
    ):
        assert said in rocelab("adopt", theirs.file, *words, expect=2).stderr
