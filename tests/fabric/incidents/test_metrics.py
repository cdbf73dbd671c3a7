"""``rocelab metrics`` of a native fabric, scraped by a real Prometheus, which is queried with PromQL."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lab.backends.lifecycle import open_fabric
from tests.fabric.command import argv, rocelab, rocelab_json
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("fabric")]
NAME = "metrics"
PEERS = 8
"""Ends of its two BGP sessions, each for IPv4 and IPv6."""
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("metrics") / "metrics.yaml"
    file.write_text(f"name: {NAME}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}}\n")
    rocelab("up", file, "--no-rdma")
    yield
    rocelab("down", "--all")


def series(text: str) -> Series:
    """The values of a scrape."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def scrape() -> Series:
    return series(rocelab("metrics", "print").stdout)


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and its URL."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv("metrics", "serve", "--port", "0", *options), stdout=pipe, stderr=pipe, text=True
    ) as it:
        try:
            assert it.stdout is not None
            said = it.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/metrics", said)
            assert found, said
            yield it, found[0]
        finally:
            it.send_signal(signal.SIGINT)
            try:
                it.wait(PATIENCE)
            finally:
                it.kill()


def fetch(url: str) -> Series:
    return series(get(url, "/metrics", "application/openmetrics-text"))


def get(url: str, path: str, accept: str = "*/*") -> str:
    """The body of an answer, which must be one of success."""
    with contextlib.closing(http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=PATIENCE)) as to:
        to.request("GET", path, headers={"Accept": accept})
        answer = to.getresponse()
        assert answer.status == 200, answer.read()
        return answer.read().decode()


def test_a_ping_moves_the_links_of_its_path() -> None:
    before = scrape()
    rocelab("exec", "h1", "--", "ping", "-c", "20", "-i", "0.01", "-s", "1000", "h2")
    after = scrape()
    assert before.keys() <= after.keys()
    grown = {
        dict(labels)["instance"]: value - before[name, labels]
        for (name, labels), value in after.items()
        if name == "node_network_receive_packets_total" and dict(labels)["device"] in {"eth1", "swp2"}
    }
    assert all(count >= 20 for count in grown.values())
    assert grown.keys() == {"h1", "h2", "leaf1", "leaf2", "spine1"}
    assert all(value >= before[key] for key, value in after.items() if key[0].endswith("_total"))
    others = {name for name, _ in after if name.startswith(("rdma_", "node_infiniband", "sonic_"))}
    assert others == {"sonic_crm_stats_nexthop_group_member_used"}, "routes are counted on plain links, too"
    daemons = {
        dict(labels)["collector"]: value for (name, labels), value in after.items() if name == "frr_collector_up"
    }
    assert daemons == {"bgp": 1, "bfd": 1, "zebra": 1}


def test_links_follow_their_state_and_mtu(tmp_path: Path) -> None:
    """Only the gauges of the two ends of the link move, and come back."""
    file = tmp_path / "pair.yaml"
    file.write_text("name: pair\nnodes:\n  h1: {role: host, rdma: false}\n  h2: {role: host, rdma: false}\n"
                    "  leaf: {role: leaf}\nlinks:\n  - {ends: [h1, leaf]}\n  - {ends: [h2, leaf]}\n")  # fmt: skip
    rocelab("up", file)
    of_pair = ("--fabric", "pair")

    def gauges() -> dict[tuple[str, str], float]:
        known = {"node_network_up", "node_network_mtu_bytes"}
        shown = series(rocelab("metrics", "print", *of_pair).stdout)
        return {(name, dict(labels)["instance"] + ":" + dict(labels)["device"]): value
                for (name, labels), value in shown.items() if name in known}  # fmt: skip

    before = gauges()
    rocelab("exec", *of_pair, "h1", "--", "ip", "link", "set", "eth1", "mtu", "1400", "down")
    assert set(gauges().items()) - set(before.items()) == {
        (("node_network_mtu_bytes", "h1:eth1"), 1400),
        (("node_network_up", "h1:eth1"), 0),
        (("node_network_up", "leaf:swp1"), 0),
    }
    rocelab("exec", *of_pair, "h1", "--", "ip", "link", "set", "eth1", "mtu", "9000", "up")
    until(lambda: gauges() == before)
    rocelab("down", *of_pair)


def routing() -> dict[tuple[str, str], float]:
    """The routes and the hash policy of each switch, by family and node."""
    known = ("frr_route_total_fib", "sonic_crm_stats_nexthop_group_member_used", "node_sysctl_net_ipv4_fib")
    return {
        (name, ":".join(dict(labels)[key] for key in ("instance", "afi") if key in dict(labels))): value
        for (name, labels), value in scrape().items()
        if name.startswith(known)
    }


def test_routes_and_hash_policies_follow_the_kernel() -> None:
    """Only the gauge of what was changed moves, and comes back."""
    before = routing()
    assert before["frr_route_total_fib", "leaf1:ipv4"] >= 4, "loopbacks, VTEPs or links of both leaves and the spine"
    policy = "node_sysctl_net_ipv4_fib_multipath_hash_policy"
    assert {node for name, node in before if name == policy} == {"leaf1", "leaf2", "spine1"}
    rocelab(
        "exec", "leaf1", "--", "ip", "route", "add", "10.9.9.0/24", "nexthop", "dev", "swp1", "nexthop", "dev", "swp2"
    )
    rocelab("exec", "leaf2", "--", "sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=0")
    assert set(routing().items()) - set(before.items()) == {
        (("frr_route_total_fib", "leaf1:ipv4"), before["frr_route_total_fib", "leaf1:ipv4"] + 1),
        (("sonic_crm_stats_nexthop_group_member_used", "leaf1"), 2),
        ((policy, "leaf2"), 0),
    }
    rocelab("exec", "leaf1", "--", "ip", "route", "del", "10.9.9.0/24")
    rocelab(
        "exec", "leaf2", "--", "sysctl", "-qw", f"net.ipv4.fib_multipath_hash_policy={before[policy, 'leaf2']:.0f}"
    )
    assert routing() == before


def test_promtool_accepts_a_scrape() -> None:
    text = rocelab("metrics", "print", "--format", "text").stdout
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_daemon_that_is_stopped_is_seen_and_no_counter_falls() -> None:
    """The server stays up; the sessions of a bgpd that is stopped are absent, and those that come back count on."""
    with serving() as (_, url):
        before = fetch(url)
        messages = {key: value for key, value in before.items() if "message" in key[0]}
        assert len(messages) == 2 * PEERS
        bgpd = (open_fabric(NAME).router("leaf1").directory / "bgpd.pid").read_text()
        os.kill(int(bgpd), signal.SIGSTOP)
        try:
            stopped = fetch(url)
        finally:
            os.kill(int(bgpd), signal.SIGCONT)
        up = ("frr_collector_up", frozenset({("instance", "leaf1"), ("collector", "bgp")}))
        assert (before[up], stopped[up]) == (1, 0)
        assert not {key for key in stopped if key[0] == "frr_bgp_peer_state" and ("instance", "leaf1") in key[1]}
        after = fetch(url)
        assert after[up] == 1
        assert all(after[key] >= value for key, value in messages.items())


def test_a_fabric_that_goes_down_ends_the_server_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("name: short\nnodes:\n  h1: {role: host, rdma: false}\n  leaf: {role: leaf}\nlinks:\n"
                    "  - {ends: [h1, leaf]}\n")  # fmt: skip
    rocelab("up", file)
    with serving("--fabric", "short") as (server, url):
        fetch(url)
        rocelab("down", "--fabric", "short")
        assert server.wait(PATIENCE) == 1
        assert server.stderr is not None
        assert server.stderr.read() == "error: fabric short was taken down: rocelab ls lists running fabrics\n"


def test_a_reader_that_is_killed_ends_the_server_with_one_line() -> None:
    with serving() as (server, _):
        (reader,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(reader), signal.SIGKILL)
        assert server.wait(PATIENCE) == 1
        assert server.stderr is not None
        ended = "error: the fabric's samples ended: the command that reads them was ended by signal 9"
        assert server.stderr.read().startswith(ended)


def test_without_a_fabric_or_a_port_it_does_not_begin() -> None:
    with serving() as (_, url):
        port = url.split(":")[2].split("/")[0]
        taken = rocelab("metrics", "serve", "--port", port, expect=2).stderr
        assert taken.startswith(f"error: port {port} of 127.0.0.1 cannot be used: Address already in use")
    assert "nowhere" in rocelab("metrics", "serve", "--port", "0", "--fabric", "nowhere", expect=2).stderr


def test_ctrl_c_ends_it_well() -> None:
    with serving() as (server, _):
        pass
    assert server.returncode == 0


@contextlib.contextmanager
def prometheus(folder: Path, url: str) -> Iterator[str]:
    """A Prometheus that scrapes every second, and its URL."""
    target = urllib.parse.urlsplit(url).netloc
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "rocelab", "honor_labels": True, "static_configs": [{"targets": [target]}]},
        ],
    }  # fmt: skip
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))
    words = [
        "prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0", "--log.level=info",
    ]  # fmt: skip
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield f"http://{listening(server)}"
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0


def listening(server: subprocess.Popen[str]) -> str:
    """The address in its log, when it is ready for queries."""
    assert server.stderr is not None
    deadline, address = time.monotonic() + PATIENCE, ""
    while "ready to receive web requests" not in (line := server.stderr.readline()):
        found = re.search(r'Listening on" address=(\S+)', line)
        address = found[1] if found else address
        assert line, "Prometheus has ended"
        assert time.monotonic() < deadline
    return address


def query(prometheus_url: str, expression: str) -> list[Any]:
    asked = urllib.parse.urlencode({"query": expression})
    found: list[Any] = json.loads(get(prometheus_url, f"/api/v1/query?{asked}"))["data"]["result"]
    return found


def latest(selector: str) -> str:
    """The last values of series, also when a later scrape had no answer in time."""
    return f"last_over_time({selector}[5m])"


def test_a_real_prometheus_scrapes_it(tmp_path: Path) -> None:
    with serving() as (_, url), prometheus(tmp_path, url) as server:
        until(lambda: bool(query(server, "rate(rocelab_virtual_seconds_total[1m]) > 0")))
        assert query(server, 'max_over_time(up{job="rocelab"}[5m])')[0]["value"][1] == "1"
        (peers,) = query(server, f"count({latest('frr_bgp_peer_state')} == 1)")
        assert int(peers["value"][1]) == PEERS
        received = latest('node_network_receive_packets_total{instance="h2", device="eth1"}')
        (counted,) = query(server, received)
        assert counted["metric"]["job"] == "rocelab"
        rocelab("exec", "h1", "--", "ping", "-c", "20", "-i", "0.01", "h2")
        expected = int(counted["value"][1]) + 20
        until(lambda: int(query(server, received)[0]["value"][1]) >= expected)


def test_ls_has_the_families() -> None:
    known = {each["name"] for each in rocelab_json("metrics", "ls")}
    assert {name for name, _ in scrape()} < known
