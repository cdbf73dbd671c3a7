"""A host with RDMA on two leaves, by lossless ports: what is flooded, classes, pauses, CNPs, and a leg that fails.

h4 is with h2 on leaf1, whose own leg to h1 is all that they have (local bias). The judges are arithmetic, tshark and
what ports on both ends of a link say of each other.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from lab.kernel.bpf.probe import load_bonding
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.units import WIRE_OVERHEAD
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json, running
from tests.models.dcqcn.nvidia import NvidiaReactionPoint
from tests.models.dcqcn.trace import run
from tests.patience import PATIENCE
from tests.vm.limited_qp import NS, registers
from tests.vm.lossless import HEADERS, MESSAGE, RATE, TUNNEL, goodput, grown, ports, written
from tests.vm.measured_rate import BOUND, UNCERTAIN
from tests.vm.multihomed import ADDRESS, SENT, VTEP, flooded, forwarders, is_used, said, until, ways_to_h1
from tests.vm.on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.models.dcqcn.nvidia import NvidiaRegisters

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]
NAME: Final = "multihomed"
CHANGES: Final = (
    ("name: multihomed", "name: multihomed\nqos: pfc-ecn"),
    ("  h3: {role: host}\n", "  h3: {role: host}\n  h4: {role: host}\n"),
    ("  - ends: [h3, leaf3]\n", "  - ends: [h3, leaf3]\n  - ends: [h4, leaf1]\n"),
    ("untagged: [h1, h2, h3]", "untagged: [h1, h2, h3, h4]"),
)
LEGS: Final = ("eth1", "eth2")
SEEN: Final = {"cnp": ("in", "infiniband.bth.opcode == 0x81"), "data": ("out", "infiniband.bth.opcode < 0x0c")}
"""Direction and filter of CNPs that h1 receives, and of data that it sends."""
UNLIMITED: Final = 64
"""Packets of a QP that rxe may have in a NIC's queue when the first CNP comes, and that no limiter holds."""
CREDIT: Final = NS // 1000
"""Nanoseconds by which a limited QP may be late, and make up for it."""


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


def test_a_cnp_by_one_leg_slows_a_qp_down_at_the_other(tmp_path: Path) -> None:
    """h1's QPs write by both legs, and h3's CNPs come back by whichever the fabric chooses for their flow.

    The tunnels to h3 share the spine's port to leaf3. What h3 makes of its marks is arithmetic; the rate that CNPs
    leave a QP is that of the model.
    """
    rocelab("qos", "set", "h1", "h2", "h3", "nic.cc.preset=paper", "--fabric", NAME)
    before = ports(NAME)
    with ExitStack() as stack:
        for leg in LEGS:
            for way, _ in SEEN.values():
                file = tmp_path / f"{leg}.{way}"
                stack.enter_context(captured(f"rl-{NAME}.h1", leg, file, f"-Q{way}", "udp port 4791"))
        written(NAME, "h1", "h3", "--pair", "h2:h3", "--qps", "8")
    after = ports(NAME)
    rocelab("qos", "set", "h1", "h2", "h3", "nic.cc.algorithm=off", "--fabric", NAME)
    marks = {port: grown(before, after, port, "queue3_ecn_marked") for port in after}
    marked, sent, suppressed, ended = (
        grown(before, after, "h3:eth1", f"np_{name}")
        for name in ("ecn_marked_roce_packets", "cnp_sent", "cnp_suppressed", "cnp_no_qp")
    )
    assert 0 < marks["spine1:swp3"] <= marked <= sum(marks.values())
    assert marked == sent + suppressed + ended, "those of QPs that have ended meanwhile have none to answer"
    handled = {port: grown(before, after, port, "rp_cnp_handled") for port in ("h1:eth1", "h1:eth2", "h2:eth1")}
    assert sent == sum(handled.values())
    cnps, data = ({leg: seen_at(tmp_path / f"{leg}.{SEEN[kind][0]}", kind) for leg in LEGS} for kind in SEEN)
    for leg in LEGS:
        assert sum(len(flow.times) for flow in cnps[leg].values()) == handled[f"h1:{leg}"]
    cc = registers(CC_PRESETS["paper"].qos(round(RATE), 4096 + HEADERS).registers)
    crossed = [
        (data[leg][port], cnps[other][port])
        for leg, other in (LEGS, LEGS[::-1])
        for port in (data[leg].keys() & cnps[other].keys()) - cnps[leg].keys()
        if len(data[leg][port].qpns) == len(cnps[other][port].qpns) == 1
    ]
    assert crossed, "no flow has its CNPs by the leg that its data do not take"
    spare = [spare_time(flow, notified.times, cc) for flow, notified in crossed]
    slower = [
        spare_time(flow, notified.times, replace(cc, time_reset=2 * cc.time_reset)) for flow, notified in crossed
    ]
    print(marks, marked, sent, suppressed, ended, handled, spare, slower, sep="\n")
    assert min(spare) > 0
    assert min(slower) < 0, "the model of a NIC that recovers half as fast allows what the QPs sent"


@dataclass(frozen=True)
class Flow:
    """Packets of one UDP source port, which a QP pair has in both directions: times in ns, bits, destination QPs."""

    times: list[int]
    bits: list[int]
    qpns: set[str]


def seen_at(file: Path, kind: str) -> dict[str, Flow]:
    """The flows in a capture by their port."""
    names = ("udp.srcport", "infiniband.bth.destqp", "frame.time_epoch", "frame.len")
    found: dict[str, Flow] = {}
    for port, qpn, at, size in fields(file, SEEN[kind][1], *names):
        flow = found.setdefault(port, Flow([], [], set()))
        flow.times.append(round(float(at) * NS))
        flow.bits.append(8 * (int(size) + WIRE_OVERHEAD))
        flow.qpns.add(qpn)
    return found


def spare_time(flow: Flow, cnps: list[int], cc: NvidiaRegisters) -> float:
    """Nanoseconds that a flow took beyond what a limiter with ``cc`` makes of its CNPs, up to the last of those.

    Less than 0: it was too fast.
    """
    times, bits = np.array(flow.times), np.array(flow.bits)
    sent = [(at, count // 8 - WIRE_OVERHEAD) for at, count in zip(flow.times, flow.bits, strict=True)]
    states = list(run(NvidiaReactionPoint(cc), cnps, flow.times[-1], sent))
    changes, rates = np.array([state.time for state in states]), np.array([state.rate for state in states])
    first, last = int(np.searchsorted(times, cnps[0])) + UNLIMITED, int(np.searchsorted(times, cnps[-1])) - 1
    assert first < last, "too few packets"
    most = np.maximum(
        *(rates[np.searchsorted(changes, times[first:last] + by) - 1] for by in (-UNCERTAIN, UNCERTAIN))
    )
    owed = float((bits[first:last] * NS / most).sum())
    return float(times[last] - times[first]) + CREDIT - (1 - BOUND) * owed


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
