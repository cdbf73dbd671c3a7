"""One line on why each header matters, for readers who know networks and not yet RDMA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from lab.wire.ethernet import PFC, VXLAN, MACControl, Pause
from lab.wire.rocev2 import AETH, BTH, CNP, DETH, FETH, IETH, RDETH, RETH, XRCETH, AtomicAckETH, AtomicETH, ImmDt

if TYPE_CHECKING:
    from scapy.packet import Packet

_TAGGED: Final = "Its PCP can select the priority that PFC pauses, on links that do not trust the DSCP."
_ROUTED: Final = "The DSCP selects the lossless class at every hop; a congested switch marks the ECN bits."
REASONS: Final[dict[type[Packet], str]] = {
    Ether: "Valid for one hop only: each router writes a new one, so the ICRC does not cover it.",
    Dot1Q: _TAGGED,
    Dot1AD: _TAGGED,
    IP: _ROUTED,
    IPv6: _ROUTED,
    UDP: "Makes RDMA routable; the source port stays the same for a QP, so ECMP keeps its packets on one path.",
    BTH: "Present in every RDMA packet: the QP it is for, and the PSN, which reveals loss and reordering.",
    DETH: "Datagrams have no connection: this names the sender, and carries the key that admits them.",
    XRCETH: "Many processes of a host share one connection; this selects the receive queue of a request.",
    RDETH: "Many QPs share one context that orders their packets; no RoCE device does it.",
    FETH: "A WRITE's ACK confirms that the NIC has the data; a FLUSH's response, that it is visible or persistent.",
    RETH: "The sender addresses the receiver's memory; the NIC checks the key and accesses it without the CPU.",
    AtomicETH: "The receiver's NIC changes eight bytes in one step; a retransmission must not change them twice.",
    AETH: "Confirms that data arrived, or requests a retransmission: one lost packet costs all behind it.",
    AtomicAckETH: "Returns the old value; the responder stores it, to answer a retransmission in the same way.",
    ImmDt: "Four bytes that consume a posted receive: without one the answer is an RNR NAK, even to a WRITE.",
    IETH: "Saves a message: it invalidates the receiver's key together with the data that used it.",
    CNP: "The receiver got CE marks and notifies the sender, whose NIC then lowers its rate (DCQCN).",
    MACControl: "Never forwarded: it is for the neighbour only, below IP and invisible to routing.",
    Pause: "Stops all classes of the link, BGP and storage alike: this is why PFC exists.",
    PFC: "Stops a class instead of dropping it; a pause that spreads hop by hop is how one slow host blocks many.",
    VXLAN: "The fabric sees only the outer headers: DSCP and ECN must be copied out, and CE copied back in.",
}
"""By layer."""
ICRC_REASON: Final = (
    "Covers everything that must not change on the way; a packet with a bad ICRC is dropped without a NAK."
)
