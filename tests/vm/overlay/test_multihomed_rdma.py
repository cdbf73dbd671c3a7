"""A host with RDMA on two leaves, by lossless ports: what is flooded, its classes, its pauses, and a leg that fails.

h4 is with h2 on leaf1, whose own leg to h1 is all that they have (local bias). The judges are arithmetic, tshark and
what ports on both ends of a link say of each other.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.bpf.probe import load_bonding
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json, running
from tests.patience import PATIENCE
from tests.vm.lossless import MESSAGE, TUNNEL, goodput, grown, ports, written
from tests.vm.multihomed import ADDRESS, SENT, VTEP, flooded, forwarders, is_used, said, until, ways_to_h1

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]
NAME: Final = "multihomed"
CHANGES: Final = (
    ("name: multihomed", "name: multihomed\nqos: lab"),
    ("  h3: {role: host}\n", "  h3: {role: host}\n  h4: {role: host}\n"),
    ("  - ends: [h3, leaf3]\n", "  - ends: [h3, leaf3]\n  - ends: [h4, leaf1]\n"),
    ("untagged: [h1, h2, h3]", "untagged: [h1, h2, h3, h4]"),
)


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    load_bonding()  # a module stays, and brings tls with it
    before = snapshot.take()
    text = (TOPOLOGIES / f"{NAME}.yaml").read_text()
    for old, new in CHANGES:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = tmp_path_factory.mktemp("multihomed") / f"{NAME}.yaml"
    file.write_text(text)
    rocelab("up", file)
    for host, other in (("h1", "h3"), ("h2", "h1"), ("h3", "h2"), ("h4", "h1")):
        said(host, "ping", "-nqc1", "-W2", ADDRESS[other], check=False)
    until(lambda: ways_to_h1() == {VTEP["leaf1"], VTEP["leaf2"]}, "leaf3 has not both ways to h1")
    yield
    rocelab("down", "--fabric", NAME)
    assert before.differences(snapshot.take()) == []


def test_when_up_returns_all_is_as_planned() -> None:
    assert forwarders() == {"leaf1": True, "leaf2": False}
    assert rocelab_json("status", "--evpn")["healthy"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [("h3", {"eth1": SENT, "eth2": 0}), ("h2", {"eth1": SENT, "eth2": 0}), ("h1", {"eth1": 0, "eth2": 0})],
)
def test_what_is_flooded_comes_once(tmp_path: Path, source: str, wanted: dict[str, int]) -> None:
    """The port's mark has the class of a packet, and what says who sent it is beside that."""
    assert flooded(tmp_path, source) == wanted


def test_path_tells_the_class_at_each_leg() -> None:
    for ends in (("h1", "h3"), ("h3", "h1")):
        told = rocelab_json("path", *ends)
        assert len(told["paths"]) == 2
        assert {(hop["priority"], hop["queue"]) for hops in told["hops"] for hop in hops} == {(3, 3)}


def test_a_flow_through_the_tunnel_has_what_its_headers_leave() -> None:
    report = written(NAME, "h3", "h1")
    assert report["all"]["goodput_bps"] == pytest.approx(goodput(TUNNEL), rel=0.002)


def test_two_who_meet_at_a_leg_are_paused_and_lose_nothing() -> None:
    before = ports(NAME)
    report = written(NAME, "h2", "h1", "--pair", "h4:h1")
    after = ports(NAME)
    message = MESSAGE * 8 / report["all"]["window_s"]
    assert report["all"]["goodput_bps"] == pytest.approx(goodput(0), abs=len(report["pairs"]) * message)
    for pair in report["pairs"]:
        assert pair["goodput_bps"] == pytest.approx(goodput(0) / 2, abs=2 * message)
    drops = [(port, name) for port in after for name in after[port] if "drop" in name]
    assert drops
    assert [(*each, grown(before, after, *each)) for each in drops if grown(before, after, *each)] == []
    for leaf, host in (("leaf1:swp3", "h2:eth1"), ("leaf1:swp4", "h4:eth1")):
        pauses = grown(before, after, leaf, "tx_prio3_pause")
        assert pauses == grown(before, after, host, "rx_prio3_pause") > 0
    assert grown(before, after, "leaf1:swp2", "queue3_ecn_marked") > 0


def has_grown(before: dict[str, dict[str, int]], leg: str) -> bool:
    return grown(before, ports(NAME), leg, "tx_prio3_bytes") > MESSAGE


def test_writes_go_on_by_the_other_leg_when_one_fails() -> None:
    """What was on its way is sent again (go-back-N), and each message comes; then LACP has both legs again."""
    before = ports(NAME)
    words = ("rdma", "bw", "h3", "h1", "--qps", "12", "--iterations", "50", "--fabric", NAME, "--json")
    with running(*words) as writing:
        for leg in ("leaf1:swp2", "leaf2:swp2"):
            until(partial(has_grown, before, leg), f"no flow takes {leg}")
        rocelab("fault", "inject", "link-down", "leaf1:swp2", "--fabric", NAME)
        failed = ports(NAME)
        answer, complained = writing.communicate(timeout=PATIENCE)
    assert writing.returncode == 0, complained
    report = json.loads(answer)
    assert report["pairs"][0]["messages"] == 12 * 50
    assert report["counters"]["h3"]["completer_retry_err"] > 0
    after = ports(NAME)
    assert grown(failed, after, "leaf1:swp2", "tx_prio3_bytes") == 0
    assert grown(failed, after, "leaf2:swp2", "tx_prio3_bytes") > MESSAGE
    rocelab("fault", "heal", "--all", "--fabric", NAME)
    until(lambda: is_used("leaf1", "swp2"), "leaf1 does not use its leg")
    until(lambda: ways_to_h1() == {VTEP["leaf1"], VTEP["leaf2"]}, "leaf3 has not both ways to h1 again")
