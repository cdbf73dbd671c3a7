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

_TAGGED: Final = "Its PCP can pick the priority that PFC pauses, on links that do not trust the DSCP."
_ROUTED: Final = (
    "The DSCP picks the lossless class at every hop, and ECN is where a congested switch leaves its mark."
)
REASONS: Final[dict[type[Packet], str]] = {
    Ether: "Good for one hop only: each router writes a new one, so the ICRC does not cover it.",
    Dot1Q: _TAGGED,
    Dot1AD: _TAGGED,
    IP: _ROUTED,
    IPv6: _ROUTED,
    UDP: "Makes RDMA routable; the source port stays the same for a QP, so ECMP keeps its packets on one path.",
    BTH: "Every RDMA packet has it: which QP it is for, and the PSN by which loss and reordering are found.",
    DETH: "Datagrams know no connection: this says who sent them, and shows the key that lets them in.",
    XRCETH: "Many processes of a host share one connection; this says whose receive queue a request is for.",
    RDETH: "Many QPs share one context that orders their packets; no RoCE device does it.",
    FETH: "A WRITE's ACK says that the NIC has the data; a FLUSH's answer, that all can see it or that it survives.",
    RETH: "The sender names the receiver's memory itself; the NIC checks the key and does it without the CPU.",
    AtomicETH: "The receiver's NIC changes eight bytes in one step; a retransmission must not change them twice.",
    AETH: "How a sender learns that data arrived, or that it must go back: one lost packet costs all behind it.",
    AtomicAckETH: "Brings the old value back; the responder keeps it, to answer a retransmission alike.",
    ImmDt: "Four bytes that take a posted receive: without one the answer is an RNR NAK, even to a WRITE.",
    IETH: "Saves a message: the receiver's key ends with the data that used it.",
    CNP: "The receiver saw CE marks and tells the sender, whose NIC then lowers its rate (DCQCN).",
    MACControl: "Never forwarded: a neighbour speaks to its neighbour, below IP and out of reach of routing.",
    Pause: "Stops all classes of the link, BGP and storage alike: this is why PFC exists.",
    PFC: "Stops a class instead of dropping it; a pause that spreads hop by hop is how one slow host blocks many.",
    VXLAN: "The fabric sees only the outer headers: DSCP and ECN must be copied out, and CE copied back in.",
}
"""By layer."""
ICRC_REASON: Final = (
    "Covers all that must not change on the way; a bad one is dropped without a NAK, and looks like loss."
)
