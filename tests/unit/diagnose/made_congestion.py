"""Windows of an incast in which CNPs are missing, lost or ignored, and such as are like them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from tests.unit.diagnose.made_facts import FULL, HOSTS, PACKETS, configured, facts, incast, with_lanes, writing

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts
    from lab.model.qos.port import NodeQos
    from tests.unit.diagnose.made_facts import Lanes

CC = CC_PRESETS["paper"].qos(10**8, 1500)
NICS = [f"{host}:eth1" for host in HOSTS]
SENT, EACH = 60, 20
"""CNPs that h4 sends in the window, and that each of its senders receives."""
SENDERS = {
    f"{host}:eth1": {"cnps_rx": EACH} for host in ("h1", "h2", "h3")
}  # fmt: skip
RECEIVER: dict[str, dict[str, Any]] = {
    "h4:eth1": {"ce_rx": PACKETS // 2, "cnps_sent": SENT},
    "leaf1:swp6": {"cnps_rx": SENT},
}
OBEYED = {name: {**counts, "cnps_handled": EACH} for name, counts in SENDERS.items()}
GREEDY = {**OBEYED, "h3:eth1": {"cnps_rx": EACH}}


def with_cc(**roles: dict[str, Any]) -> dict[str, NodeQos]:
    """The fabric's configuration with congestion control in each NIC, but for roles of some hosts."""
    found = configured(*NICS, cc=CC)
    for host, off in roles.items():
        port = replace(found[host].ports["eth1"], cc=replace(CC, **off))
        found[host] = replace(found[host], ports={**found[host].ports, "eth1": port})
    return found


def without(role: str) -> dict[str, NodeQos]:
    """The fabric's configuration once a role is off in all NICs: counters of the window may be older."""
    return with_cc(**{host: {role: False} for host in HOSTS})


BULK: Lanes = {"leaf1:swp6/0": {"rx_packets": SENT}, "leaf1:swp2/0": {"tx_bytes": FULL, "depth": 400_000.0}}
"""CNPs that leaf1 receives as best effort, and the queue of bulk traffic in which they wait."""
OWN_CLASS: Lanes = {"leaf1:swp6/6": {"rx_packets": SENT}, "leaf1:swp2/0": BULK["leaf1:swp2/0"]}
FASTER = with_lanes(incast(), {
    "h1:eth1": {"tx_bytes": FULL // 10}, "h2:eth1": {"tx_bytes": FULL // 10}, "h3:eth1": {"tx_bytes": FULL * 8 // 10},
})  # fmt: skip
"""h3 sends most of what h4 receives."""
TWICE = {host: {"duplicate_request": 400} for host in ("h1", "h2", "h3")}
TIMED_OUT = {**TWICE, "h4": {"completer_retry_err": 12}}


def others_registers() -> dict[str, NodeQos]:
    """The fabric's configuration with other registers in h3's NIC."""
    return with_cc(h3={"published": replace(CC.published, rpg_time_reset=11e-6)})


def window(frames: dict[str, dict[str, Any]], **others: Any) -> WindowFacts:
    """h1, h2 and h3 write to h4, marked by leaf1."""
    return facts(incast(), frames=frames, **others)


CASES: list[tuple[str, str, WindowFacts, WindowFacts]] = [
    ("cnp-lost", "leaf1", window(RECEIVER), window({**RECEIVER, **OBEYED})),
    (
        "cnp-lost", "h4:eth1--leaf1:swp6",
        window({"h4:eth1": RECEIVER["h4:eth1"]}, qos=with_cc()),
        window({"h4:eth1": {**RECEIVER["h4:eth1"], "cnps_sent": 4}}, qos=with_cc()),
    ),
    (
        "ecn-without-cc", "h4:eth1",
        window({}, qos=with_cc(h4={"np": False}), current=True),
        window({**RECEIVER, **OBEYED}, qos=with_cc(), current=True),
    ),
    ("ecn-without-cc", "h4:eth1", window({"h8:eth1": {"cnps_sent": 9}, "h5:eth1": {"cnps_rx": 9}}), window({})),
    (
        "ecn-without-cc", "h4:eth1", window({"h8:eth1": {"cnps_sent": 9}, "h5:eth1": {"cnps_rx": 9}}),
        window({"h8:eth1": {"cnps_sent": 9}, "h5:eth1": {"cnps_rx": 9}}, qos=without("np"), current=True),
    ),
    (
        "dcqcn-off-on-one-host", "h3:eth1",
        window({**RECEIVER, **GREEDY}, qos=with_cc(h3={"rp": False}), current=True),
        window({**RECEIVER, **GREEDY}, qos=with_cc(), current=True),
    ),
    ("dcqcn-off-on-one-host", "h3:eth1", window({**RECEIVER, **GREEDY}), window({**RECEIVER, **SENDERS})),
    (
        "dcqcn-off-on-one-host", "h3:eth1", window({**RECEIVER, **GREEDY}),
        window({**RECEIVER, **GREEDY}, qos=without("rp"), current=True),
    ),
    (
        "cnp-in-lossy-class", "h4:eth1",
        facts(with_lanes(incast(), BULK), frames={**RECEIVER, **OBEYED}),
        facts(with_lanes(incast(), OWN_CLASS), frames={**RECEIVER, **OBEYED}),
    ),
    (
        "cc-parameters-differ", "h3:eth1",
        facts(FASTER, frames={**RECEIVER, **OBEYED}, qos=others_registers(), current=True),
        facts(FASTER, frames={**RECEIVER, **OBEYED}, qos=with_cc(), current=True),
    ),
    (
        "cc-parameters-differ", "h3:eth1", facts(FASTER, frames={**RECEIVER, **OBEYED}),
        facts(FASTER, frames={**RECEIVER, **OBEYED}, transfers=(
            *writing("h1:h4", "h2:h4", qps=1), *writing("h3:h4", qps=8),
        )),
    ),
    (
        "ack-starved-by-pfc", "h4:eth1", facts(incast(), devices=TIMED_OUT),
        facts(incast(), devices={**TIMED_OUT, "h1": {"duplicate_request": 400, "out_of_seq_request": 9}}),
    ),
    ("ack-starved-by-pfc", "h4:eth1", facts(incast(), devices=TIMED_OUT), facts(incast(), devices=TWICE)),
]  # fmt: skip
"""Each cause, its place, a window that shows it, and one that does not."""
