"""A QP that is destroyed while its packets wait: what it still sends does not pass them."""

from __future__ import annotations

from typing import Final

from lab.rdma import device_counters
from lab.wire.craft import build
from tests.vm.one_switch import Star, settle, star, waited
from tests.vm.queue_pair import QueuePair, Verbs
from tests.vm.rdma_switch import device, nic, with_rdma

RATE: Final = 10_000_000
SLOW: Final = (
    f"nic.cc.real_rate={RATE}bit",
    "nic.cc.rate_to_set_on_first_cnp=1Mbit",
    "nic.cc.rpg_time_reset=10s",
    "nic.cc.rpg_ai_rate=1Mbit",
    "nic.cc.rpg_hai_rate=1Mbit",
)
MTU: Final = 256
WRITES: Final = 12
SIZE: Final = 4096
"""With the MTU, 16 packets. rxe has 64 in the NIC at once; more are still to be sent when the QP is destroyed."""
WAITING: Final = 32
"""Packets in the limiter from which on the QP is destroyed: half of those that rxe has in the NIC."""


def test_what_a_qp_sends_while_it_is_destroyed_does_not_pass_what_waits() -> None:
    with with_rdma(star(2, f"{RATE}bit", 1500, "connectx")) as fabric:
        fabric.configure("h1", *SLOW)
        with (
            Verbs(fabric.namespaces["h1"]) as here,
            Verbs(fabric.namespaces["h2"]) as there,
            QueuePair(there, nic(fabric, "h2"), mtu=MTU) as receiver,
        ):
            with QueuePair(here, nic(fabric, "h1"), mtu=MTU) as sender:
                receiver.connect(sender.address, sender.qpn)
                sender.connect(receiver.address, receiver.qpn)
                notify(fabric, sender.qpn)
                for _ in range(WRITES):
                    sender.ask("post", operation="RDMA_WRITE", size=SIZE, rkey=receiver.rkey, va=receiver.va)
                waited(lambda: fabric.maps.limiters["waiting"].sum() > WAITING, "packets to wait")
            settle(fabric)
            sent = device_counters.read(device(fabric, "h1"))["sent_pkts"]
            arrived = device_counters.read(device(fabric, "h2"))
            assert sent > 64
            assert arrived["rcvd_pkts"] == sent
            assert arrived["out_of_seq_request"] == 0


def notify(fabric: Star, qpn: int) -> None:
    """A CNP from ``h2`` to a QP of ``h1``, which limits it."""
    own, switch = fabric.plan["h2"].interfaces["eth1"], fabric.plan["s1"].interfaces["swp2"]
    path = build.Path(own.mac, switch.mac, fabric.address("h2"), fabric.address("h1"))
    with fabric.wire("h2") as wire:
        wire.send(build.cnp(path, qpn))
    waited(fabric.maps.limiters["started"].any, "the QP to be limited")
