"""``rocelab diagnose`` where nobody does anything: what stands still is seen, and the rest by its own probes.

The judge is what the test itself has injected. In virtual time, with 100 Mb/s links.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import rocelab, running
from tests.vm.shared_fabric import await_routes, kernel_routes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600), pytest.mark.usefixtures("incast")]
WINDOW: Final = "3"
BRIEF: Final = ("--probe", "--seconds", "1")
"""The sweeps send as much whatever the window, and the writes still send 200 packets of each pair."""
UNWRITTEN: Final = 51.2
"""Seconds of rxe's patience with a queue pair: less than that, and nobody has waited for one."""


@pytest.fixture
def fault(request: pytest.FixtureRequest, incast: Fabric) -> Iterator[None]:
    """It is healed, and all routes are there again, before the next test begins."""
    before = kernel_routes(incast)
    rocelab("fault", "inject", *request.param)
    yield
    rocelab("fault", "heal", "--all")
    await_routes(incast, before)


def diagnosed(*options: str, expect: int) -> dict[str, Any]:
    """What it answers of the fabric now."""
    answer: dict[str, Any] = json.loads(
        rocelab("diagnose", "--seconds", WINDOW, *options, "--json", expect=expect).stdout
    )
    return answer


def test_probes_of_a_healthy_fabric_find_nothing() -> None:
    answer = diagnosed("--probe", expect=0)
    assert (answer["outcome"], answer["causes"], answer["unexplained"]) == ("healthy", [], [])


@pytest.mark.parametrize("fault", [("link-loss", "leaf1:swp1", "probability=0.05")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_loss_is_seen_by_those_who_send() -> None:
    """Of what the probes send one in twenty is lost; without them nobody would send anything."""
    first = diagnosed(*BRIEF, expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == ("gray-loss", ["leaf1:swp1--spine1:swp1"])


@pytest.mark.parametrize("fault", [("pause-storm", "h2")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_nobody_writes_into_a_storm() -> None:
    """Its packets would keep queue pairs, for whose end rxe waits for minutes; the storm is named without."""
    began = time.monotonic()
    first = diagnosed(*BRIEF, expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == ("pfc-storm", ["h2:eth1"])
    assert time.monotonic() - began < UNWRITTEN
    assert transfers() == []


@pytest.mark.long
@pytest.mark.parametrize("fault", [("udp-filtered", "h5")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_a_filter_of_a_host_is_found_there() -> None:
    """Its NIC counts what its RDMA device never gets, and the writes of the probes end."""
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"], first["confidence"]) == ("acl-4791", ["h5:eth1"], 0.99)


@pytest.mark.long
@pytest.mark.parametrize("fault", [("dscp-rewritten", "h6", "dscp=10")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_a_host_that_sends_in_a_lossy_class_is_found() -> None:
    """Nothing is lost, and both ends of its link count the same priority."""
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == ("dscp-rewritten", ["h6:eth1"])
    sources = [line["source"] for line in first["evidence"] if line["of"] == "h6:eth1"]
    assert sources == ["sent_pkts", "tx_prioN_packets", "tx_prio0_packets"]


@pytest.mark.long
@pytest.mark.parametrize("fault", [("link-delay", "leaf1--spine1", "delay=2ms")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_a_slow_link_is_found_where_nobody_sends() -> None:
    """Between two leaves it may be either link of the path."""
    first = diagnosed("--probe", expect=1)["causes"][0]
    links = [{end.partition(":")[0] for end in place.split("--")} for place in first["places"]]
    assert first["cause"] == "link-delay"
    assert sorted(links, key=sorted) == [{"leaf1", "spine1"}, {"leaf2", "spine1"}]
    assert all(2000 < line["value"] < 5000 for line in first["evidence"])


@pytest.mark.long
@pytest.mark.parametrize("fault", [("link-mtu", "h1--leaf1", "mtu=1500")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_a_hosts_link_that_takes_smaller_packets_than_its_siblings_is_found() -> None:
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == ("mtu-black-hole", ["h1:eth1--leaf1:swp3"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "cause", "place", "told"),
    [
        (("link-mtu", "leaf2--spine2", "mtu=1500"), "mtu-black-hole", "leaf2:swp2--spine2:swp2", "of 100 small"),
        (("link-loss", "spine2:swp2", "probability=0.1"), "gray-loss", "spine2:swp2--leaf2:swp2", "of 100 small"),
        (("udp-filtered", "spine1"), "acl-4791", "spine1", "of 100 small packets and 0 of 10 of 9000 octets arrived"),
    ],
    indirect=["fault"],
)
@pytest.mark.usefixtures("fault")
def test_a_sweep_finds_what_is_wrong_with_one_path_of_two(cause: str, place: str, told: str) -> None:
    """By UDP source port, whatever hash and QPs would have it."""
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == (cause, [place])
    said = [evidence["says"] for evidence in first["evidence"] if evidence["source"] == "sweep"]
    assert any(told in line for line in said), first
    assert all(place.partition(":")[0].replace("leaf2", "spine2") in line for line in said), first


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "places"),
    [
        (("stale-neighbour", "leaf1:swp1", "of=169.254.0.1"), ["leaf1:swp1"]),
        (("stale-neighbour", "leaf1:swp3", "of=10.0.0.1"), ["leaf1:swp3"]),
        (("wrong-gateway", "h1", "gateway=10.0.0.77"), ["h1:eth1"]),
        (("wrong-gateway", "h1", "gateway=10.0.0.9"), ["h1:eth1"]),
        (("default-route-lost", "h1"), ["h1:eth1"]),
        (("wrong-address", "h1", "address=10.0.0.1/29"), ["h1:eth1"]),
        (("wrong-address", "h1", "address=10.200.0.9/31"), ["h1:eth1--leaf1:swp3"]),
        (("cable-swapped", "leaf1:swp3,leaf1:swp4"), ["leaf1:swp3", "leaf1:swp4"]),
    ],
    indirect=["fault"],
)
@pytest.mark.usefixtures("fault")
def test_an_address_that_is_wrong_is_found_where_it_is(request: pytest.FixtureRequest, places: list[str]) -> None:
    """What switches do not send for it is no filter of theirs."""
    answer = diagnosed("--probe", expect=1)
    kind = request.node.callspec.params["fault"][0]
    assert [(each["cause"], each["places"]) for each in answer["causes"]] == [(kind, places)]


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [("daemon-killed", "leaf1"), ("daemon-killed", "leaf1", "daemon=zebra"), ("daemon-stopped", "leaf1")],
    indirect=True,
)
@pytest.mark.usefixtures("fault")
def test_a_daemon_that_does_not_answer_is_named(request: pytest.FixtureRequest) -> None:
    """Also one that had died before anybody looked."""
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == (request.node.callspec.params["fault"][0], ["leaf1"])


@pytest.mark.long
@pytest.mark.parametrize("fault", [("udp-filtered", "leaf1")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_a_filter_lets_pings_through_and_counts_the_rest() -> None:
    first = diagnosed("--probe", expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == ("acl-4791", ["leaf1"])
    told = " ".join(evidence["says"] for evidence in first["evidence"])
    assert "answered: ping" in told


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (("link-down", "leaf1:swp1"), "link-flap"),
        (("link-mtu", "leaf1--spine1", "mtu=1500"), "mtu-black-hole"),
        (("link-rate", "leaf1--spine1", "rate=25Mbit"), "link-rate"),
        (("link-cut", "leaf1:swp1"), "link-cut"),
    ],
    indirect=["fault"],
)
@pytest.mark.usefixtures("fault")
def test_what_was_so_before_anybody_looked_is_seen(cause: str) -> None:
    first = diagnosed(expect=1)["causes"][0]
    assert (first["cause"], first["places"]) == (cause, ["leaf1:swp1--spine1:swp1"])


def transfers() -> list[str]:
    """The perftest programs that run now, by their process ids."""
    return subprocess.run(["pgrep", "-x", "ib_write_bw"], capture_output=True, text=True, check=False).stdout.split()


@pytest.mark.long
def test_one_that_is_killed_leaves_no_transfers() -> None:
    """The next command about the fabric ends what it had running."""
    with running("diagnose", "--probe", "--seconds", "100") as diagnosing:
        deadline = time.monotonic() + 100
        while not transfers():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        diagnosing.kill()
    assert transfers()
    rocelab("status")
    assert transfers() == []


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--probe",)])
@pytest.mark.parametrize("fault", [("rdma-device-lost", "h5")], indirect=True)
@pytest.mark.usefixtures("fault")
def test_an_rdma_device_that_is_gone_is_named_and_ends_no_diagnosis(options: tuple[str, ...]) -> None:
    """With probes and without: who writes to whom leaves the host out."""
    causes = diagnosed(*options, expect=1)["causes"]
    assert [(each["cause"], each["places"]) for each in causes] == [("rdma-device-lost", ["h5:eth1"])]
