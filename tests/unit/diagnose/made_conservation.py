"""Windows in which packets are not conserved: inside a switch, at either side of a NIC, or twice on a link."""

from __future__ import annotations

from lab.diagnose.conservation.hop_balance import HopBalance, HopKind
from tests.unit.diagnose.made_facts import PEERS, configured, facts

RESENT = {"h5": {"out_of_seq_request": 60, "duplicate_request": 0}}


def hop(kind: HopKind, place: str, missing: float, slack: float = 3.0, *, held: float = 0.0) -> HopBalance:
    """A hop that 10,000 packets entered, in 60 samples."""
    return HopBalance(kind, place, 10_000, missing, slack, held, 60)


_HOPS = ((HopKind.SWITCH, "spine1"), (HopKind.NIC_RX, "h5:eth1"), (HopKind.NIC_TX, "h1:eth1"))
_TWICE = "leaf1:swp1--spine1:swp1"
_BESIDE = "leaf1:swp2--spine2:swp1"
STRAY = {"leaf1:swp3/0": {"ignored": 40}}
ACKNOWLEDGED = {"leaf1:swp1": {"tx_packets": 10_000, "tx_bytes": 660_000}}
"""A link with acknowledgements only."""
QUIET = {"h5": {"out_of_seq_request": 0}}
UPLINK = configured("leaf1:swp1", "spine1:swp1")
OVERTAKEN = {"leaf1:swp1": {"overtaken_acks_tx": 0}, "spine1:swp1": {"overtaken_acks_rx": 1}}
"""A single acknowledgement, at the first port that receives it after a newer one."""
IN_ORDER = {"leaf1:swp1": {"overtaken_acks_tx": 0}, "spine1:swp1": {"overtaken_acks_rx": 0}}
ZERO = configured("leaf1:swp3", "h1:eth1")


def holding(*held: float) -> tuple[HopBalance, ...]:
    """Two links that lose nothing, with so many packets on them."""
    return tuple(hop(HopKind.LINK, link, 0, held=each) for link, each in zip((_TWICE, _BESIDE), held, strict=True))


CASES = [
    *(
        ("silent-drop", place, facts({}, hops=(hop(kind, place, 100),), devices=RESENT),
         facts({}, hops=(hop(kind, place, 2),), devices=RESENT))
        for kind, place in _HOPS
    ),
    (
        "link-duplicate", _TWICE,
        facts({}, hops=(hop(HopKind.LINK, _TWICE, -100),), devices=RESENT),
        facts({}, hops=(hop(HopKind.LINK, _TWICE, -10),), devices=RESENT),
    ),
    *(
        ("queue-replaced", place, facts(lanes, hops=(hop(kind, hidden, 100),), devices=RESENT),
         facts(lanes, hops=(hop(kind, hidden, 0),), devices=RESENT))
        for place, kind, hidden, lanes in (
            ("h1:eth1", HopKind.NIC_TX, "h1:eth1", {PEERS["h1:eth1"]: {"rx_packets": 500, "tx_packets": 40}}),
            ("spine1:swp1", HopKind.SWITCH, "spine1", {"leaf1:swp1": {"rx_packets": 500, "tx_packets": 40}}),
        )
    ),
    (
        "link-reorder", _TWICE,
        facts({}, hops=holding(0.9, 0.2), devices=RESENT),
        facts({}, hops=holding(0.9, 0.4), devices=RESENT),
    ),
    ("link-reorder", _TWICE, facts({}, frames=OVERTAKEN), facts({}, frames=IN_ORDER)),
    (
        "link-delay", _TWICE,
        facts({}, hops=(hop(HopKind.LINK, _TWICE, 0, held=0.95),), qos=UPLINK),
        facts({}, hops=(hop(HopKind.LINK, _TWICE, 0, held=0.1),), qos=UPLINK),
    ),
    (
        "link-delay", _TWICE,
        facts(ACKNOWLEDGED, hops=(hop(HopKind.LINK, _TWICE, 0, held=0.95),), qos=UPLINK, devices=QUIET),
        facts(ACKNOWLEDGED, hops=(hop(HopKind.LINK, _TWICE, 0, held=0.1),), qos=UPLINK, devices=QUIET),
    ),
    ("malformed-pfc", "h1:eth1", facts(STRAY, qos=ZERO, current=True), facts({}, qos=ZERO, current=True)),
]  # fmt: skip
