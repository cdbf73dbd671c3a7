"""Rows of the table of causes: the place is known by arithmetic, and no other cause explains what happens there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import loss_symptoms, path_delays, vanishing

if TYPE_CHECKING:
    from lab.diagnose.symptom import Symptom


def _silent_drop(title: str, symptom: Symptom, tell: str, fix: str, words: str) -> Cause:
    """Return a cause that only names the place: it is reported if no other fault is found."""
    return Cause(
        "silent-drop", title, needs=(symptom,), rival="acl-4791", tell=tell, fix=fix, words=words, fallback=True
    )


CONSERVATION_CAUSES: Final = (
    _silent_drop(
        "packets vanish inside a switch, and no port counts a drop",
        vanishing.vanishes_in_a_switch,
        tell="rocelab exec {node} -- nft list ruleset; tc -s filter show; ip rule; ip route get ADDRESS; ip neigh",
        fix="compare the filters, rules, routes and neighbours of {node} with those of a sibling, and remove what"
        " differs",
        words="More packets enter its ports than leave them, wait in their queues, or are counted as dropped. A"
        " packet filter, a policer, a blackhole route or an unresolved neighbour drops packets without a counter of"
        " a port.",
    ),
    _silent_drop(
        "packets arrive at a NIC and not at its RDMA device",
        vanishing.vanishes_behind_a_nic,
        tell="rocelab exec {node} -- nft list ruleset; tc -s filter show dev {interface} ingress; nstat",
        fix="compare the filters of {node} with those of another host; if there is none, look for corrupt packets:"
        " an ICRC error is dropped without a counter",
        words="A filter of the host drops them, or their ICRC is wrong. Or they are addressed to a MAC or queue pair"
        " that the host does not have.",
    ),
    _silent_drop(
        "packets of an RDMA device do not leave its NIC",
        vanishing.vanishes_before_a_nic,
        tell="rocelab exec {node} -- nft list ruleset; tc -s filter show dev {interface} egress; tc qdisc; ip rule",
        fix="compare the filters, rules and queues of {node} with those of another host, and remove what differs",
        words="The RDMA device counts packets as sent that its NIC neither sends, holds nor drops: a filter, a rule"
        " or another queueing discipline of the host takes them.",
    ),
    Cause(
        "queue-replaced", "a port has lost the queues that count its packets",
        needs=(vanishing.counts_nothing,),
        nearby=("link-cut", "silent-drop", "gray-loss", "link-duplicate", "headroom-too-small", "pfc-one-sided"),
        rival="silent-drop",
        tell="rocelab exec {node} -- tc qdisc show dev {interface}: its root, compared with a sibling",
        fix="restore the queues of {port}: build the fabric again with rocelab down and rocelab up",
        words="Its peer receives packets from it that it does not count. Another queueing discipline stands in place"
        " of its queues, without classes, pauses and marks. Lossless packets behind it are dropped.",
        fallback=True,
    ),
    Cause(
        "link-duplicate", "a link delivers packets twice",
        needs=(vanishing.arrives_twice,),
        supports=(loss_symptoms.duplicates_are_received,),
        rival="",
        tell="rocelab counters {port} {peer}: sent at one end, received at the other",
        fix="look for a mirror or a loop on {place}, then replace the optic and cable",
        words="One end receives more packets than the other sends. RDMA devices discard the copies, and answer each"
        " with an acknowledgement.",
    ),
    Cause(
        "link-reorder", "packets of a link overtake each other",
        needs=(vanishing.overtakes,),
        rival="link-delay",
        tell="rocelab capture {peer} -o trouble.pcapng, rocelab analyze trouble.pcapng: PSNs out of order",
        fix="replace what forwards the packets of {place} on several ways: a retimer, a media converter, or a bundle"
        " that is balanced packet by packet",
        words="The packets of a queue pair leave one end in order and arrive at the other in another one. Receivers"
        " answer with NAKs, and all packets behind are sent again.",
        fallback=True,
    ),
    Cause(
        "link-reorder", "acknowledgements of a link overtake each other",
        needs=(vanishing.acknowledgements_are_overtaken,),
        rival="link-delay",
        tell="rocelab counters {port} {peer} --columns port,rx_ack_out_of_order,tx_ack_out_of_order",
        fix="replace what forwards the packets of {place} on several ways: a retimer, a media converter, or a bundle"
        " that is balanced packet by packet",
        words="An acknowledgement that arrives after a newer one of its queue pair says nothing new, so that no RDMA"
        " device counts it. The port counts it, and the other end of the link has not sent it so.",
        fallback=True,
    ),
    Cause(
        "link-delay", "a path takes longer than others of as many hops",
        needs=(path_delays.a_path_is_slow,),
        rival="link-rate",
        tell="rocelab diagnose --probe --json: the delays; rocelab qos show {node}: whether a rate differs",
        fix="compare {place} with its siblings: a longer fibre, a media converter, a retimer or a lower rate",
        words="Even the fastest of a hundred small packets takes longer there, so that no queue explains it. QPs on"
        " this path are slower, and those that change paths arrive out of order.",
        fallback=True,
    ),
    Cause(
        "link-delay", "all packets of a NIC take longer in one direction",
        needs=(path_delays.a_nic_has_a_slow_link,),
        rival="link-rate",
        tell="rocelab diagnose --probe --json: the delays; rocelab qos show {node}: whether a rate differs",
        fix="compare {place} with its siblings: a longer fibre, a media converter, a retimer or a lower rate",
        words="Even the fastest of a hundred small packets takes longer there, so that no queue explains it. The"
        " NIC's own QPs are slower than all others.",
        fallback=True,
    ),
    Cause(
        "link-delay", "packets stay longer on a link than its rate and length explain",
        needs=(path_delays.packets_stay_on_a_link,),
        rival="link-rate",
        tell="rocelab diagnose --probe --json: the delays; rocelab qos show {node}: whether a rate differs",
        fix="compare {place} with its siblings: a longer fibre, a media converter, a retimer or a lower rate",
        words="The number of packets on a link, divided by their rate, is the time of each (Little's law). QPs on"
        " this link are slower, and those that change paths arrive out of order. Acknowledgements that are overtaken"
        " look the same: each waits for the next one.",
        fallback=True,
    ),
    Cause(
        "link-reorder", "acknowledgements of a link overtake each other",
        needs=(path_delays.acknowledgements_stay_on_a_link,),
        rival="link-delay",
        tell="rocelab capture {peer} -o trouble.pcapng: PSNs of acknowledgements only rise if all are late",
        fix="replace what forwards the packets of {place} on several ways: a retimer, a media converter, or a bundle"
        " that is balanced packet by packet",
        words="An acknowledgement that arrives behind a later one says nothing new, so that no RDMA device counts it."
        " Each waits on the link until others have passed.",
        fallback=True,
    ),
)  # fmt: skip
