"""Requests of traffic control as the kernel took them: ``tc`` reads them back, and packets go where they should."""

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from statistics import linear_regression
from typing import Any

import pytest

from lab.errors import LabError
from lab.kernel.bpf import bpf_object, clang
from lab.kernel.netlink import links, saved_qdiscs, tc
from lab.kernel.netlink.links import VethEnd
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from tests.inside import entered

pytestmark = pytest.mark.vm

WIRE = 24
"""FCS, preamble and gap of a frame (IEEE 802.3 clauses 3.1.1 and 4.4.2): octets that no packet socket sees."""
FRAMES, WARM_UP = 600, 100
SAMPLE = Path(__file__).parents[1] / "bpf/sample.bpf.c"
VETH, IFB = 1001, 1002
ETHERTYPE = 0x88B5
"""For experiments (IEEE 802)."""
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35
"""Of <asm-generic/socket.h>."""


@pytest.fixture
def spaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces and a cable; the first has an ifb beside it, up."""
    here, there = (Namespace(f"rv-{os.getpid()}-{end}") for end in "ab")
    netns.create([here.name, there.name])
    opened = [os.open(space.path, os.O_RDONLY) for space in (here, there)]
    batch = NetlinkBatch()
    ends = [VethEnd(descriptor, "eth1", VETH, f"02:00:00:00:00:0{n}", 9000) for n, descriptor in enumerate(opened, 1)]
    links.add_veth(batch, *ends)
    batch.commit()
    for descriptor in opened:
        os.close(descriptor)
    for space in (here, there):
        with entered(space):
            links.set_up(batch, VETH, "eth1")
            if space is here:
                links.add_ifb(batch, IFB, "drain1")
                links.set_up(batch, IFB, "drain1")
            batch.commit()
    yield here, there
    netns.delete([here.name, there.name])


SHAPERS = (
    (("root", "handle", "1:", "tbf", "rate", "9gbit", "burst", "90000", "limit", "900000", "overhead", "24"),),
    (
        (
            "root",
            "handle",
            "5:",
            "netem",
            "delay",
            "2ms",
            "300us",
            "25%",
            "loss",
            "1%",
            "rate",
            "80mbit",
            "limit",
            "77",
        ),
    ),
    (
        (
            "root",
            "handle",
            "1:",
            "tbf",
            "rate",
            "80mbit",
            "burst",
            "9000",
            "latency",
            "30ms",
            "linklayer",
            "ethernet",
        ),
        (
            "parent",
            "1:1",
            "handle",
            "2:",
            "netem",
            "delay",
            "1ms",
            "reorder",
            "5%",
            "50%",
            "gap",
            "3",
            "limit",
            "1000",
        ),
    ),
)


@pytest.mark.parametrize("shapers", SHAPERS, ids=("tbf", "netem", "both"))
def test_shapers_come_back_as_tc_has_shown_them(
    spaces: tuple[Namespace, Namespace], shapers: tuple[tuple[str, ...], ...]
) -> None:
    here, _ = spaces
    for words in shapers:
        here.run(["tc", "qdisc", "add", "dev", "eth1", *words])
    before = here.run(["tc", "-details", "qdisc", "show", "dev", "eth1"]).stdout
    kept = here.inside(lambda: saved_qdiscs.queues(VETH))
    here.run(["tc", "qdisc", "del", "dev", "eth1", "root"])
    assert here.run(["tc", "-details", "qdisc", "show", "dev", "eth1"]).stdout != before
    batch = NetlinkBatch()
    saved_qdiscs.put_back(batch, VETH, kept)
    here.inside(batch.commit)
    assert here.run(["tc", "-details", "qdisc", "show", "dev", "eth1"]).stdout == before


def shown(space: Namespace, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(space.run(["tc", "-json", *words]).stdout)
    return found


def received(space: Namespace, interface: str) -> int:
    said = space.run(["ip", "-json", "-statistics", "link", "show", interface]).stdout
    return int(json.loads(said)[0]["stats64"]["rx"]["packets"])


def commit(space: Namespace, batch: NetlinkBatch) -> None:
    with entered(space):
        batch.commit()


def arrivals(here: Namespace, there: Namespace, size: int, buffer: int) -> list[float]:
    """Moments, in seconds, at which frames of ``size`` octets arrive that are sent as fast as the link takes them.

    The socket's ``buffer`` holds less than the shaper's queue, so that none is dropped, and enough for it never to be
    empty while another process has the CPU.
    """
    with entered(there):
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    with entered(here):
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with receiver, sender:
        receiver.bind(("eth1", ETHERTYPE))
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.settimeout(10)
        sender.bind(("eth1", 0))
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, buffer)
        frame = bytes.fromhex("020000000002020000000001") + ETHERTYPE.to_bytes(2, "big")
        for _ in range(FRAMES):
            sender.send(frame.ljust(size, b"\0"))
        return [stamp(receiver.recvmsg(size, 64)[1]) for _ in range(FRAMES)]


def stamp(ancillary: list[tuple[int, int, bytes]]) -> float:
    ((_, _, data),) = ancillary
    seconds, nanoseconds = struct.unpack("qq", data)
    return float(seconds + nanoseconds / 1e9)


@pytest.mark.parametrize(
    ("rate", "size", "buffer"),
    [(10_000_000, 60, 1 << 19), (20_000_000, 1514, 1 << 16), (100_000_000, 9014, 1 << 18)],
)
def test_a_shaped_link_carries_its_rate_with_preamble_and_gap_counted(
    spaces: tuple[Namespace, Namespace], rate: int, size: int, buffer: int
) -> None:
    """Without the 24 octets frames of 60 would come 40% too fast. They leave in trains, as long as the bucket is."""
    batch = NetlinkBatch()
    links.add_shaper(batch, VETH, rate=rate, mtu=max(1500, size - 14))
    commit(spaces[0], batch)
    moments = arrivals(*spaces, size, buffer)[WARM_UP:]
    assert linear_regression(range(len(moments)), moments).slope == pytest.approx((size + WIRE) * 8 / rate, rel=5e-3)


def test_a_root_is_replaced_and_deleted(spaces: tuple[Namespace, Namespace]) -> None:
    here, _ = spaces
    batch = NetlinkBatch()
    tc.set_root(batch, VETH, "bfifo", 5)
    tc.set_root(batch, VETH, "bfifo", 5)
    tc.set_root(batch, VETH, "pfifo", 6)
    commit(here, batch)
    (qdisc,) = shown(here, "qdisc", "show", "dev", "eth1")
    assert (qdisc["kind"], qdisc["handle"], qdisc["root"]) == ("pfifo", "6:", True)
    tc.set_root(batch, VETH, "bfifo", 6)
    with pytest.raises(LabError, match="qdisc bfifo: "):
        commit(here, batch)
    batch = NetlinkBatch()
    tc.delete_root(batch, VETH)
    commit(here, batch)
    assert [qdisc["kind"] for qdisc in shown(here, "qdisc", "show", "dev", "eth1")] == ["noqueue"]


def test_programs_sit_on_both_hooks_and_go_with_them(spaces: tuple[Namespace, Namespace]) -> None:
    here, _ = spaces
    batch = NetlinkBatch()
    with bpf_object.Object.open(clang.compile_bpf(SAMPLE)) as sample:
        sample.load()
        tc.add_clsact(batch, VETH)
        tc.add_bpf_ingress(batch, VETH, sample.program("obey"), "obey_rx")
        tc.add_bpf_egress(batch, VETH, sample.program("obey"), "obey_tx")
        commit(here, batch)
    for hook, name in (("ingress", "obey_rx"), ("egress", "obey_tx")):
        (found,) = [entry for entry in shown(here, "filter", "show", "dev", "eth1", hook) if "options" in entry]
        assert (found["protocol"], found["pref"], found["kind"]) == ("all", 100, "bpf")
        assert (found["options"]["bpf_name"], found["options"]["direct-action"]) == (name, True)
    tc.delete_clsact(batch, VETH)
    commit(here, batch)
    assert [qdisc["kind"] for qdisc in shown(here, "qdisc", "show", "dev", "eth1")] == ["noqueue"]


def test_what_comes_in_leaves_by_the_ifb_and_comes_back(spaces: tuple[Namespace, Namespace]) -> None:
    here, there = spaces
    batch = NetlinkBatch()
    tc.add_clsact(batch, VETH)
    tc.add_ingress_redirect(batch, VETH, IFB)
    tc.set_root(batch, IFB, "bfifo", 9)
    commit(here, batch)
    (found,) = [entry for entry in shown(here, "filter", "show", "dev", "eth1", "ingress") if "options" in entry]
    assert (found["protocol"], found["pref"], found["kind"]) == ("all", 200, "matchall")
    (action,) = found["options"]["actions"]
    assert (action["kind"], action["mirred_action"], action["direction"]) == ("mirred", "redirect", "egress")
    assert action["to_dev"] == "drain1"
    for space, address in ((here, "10.9.9.1/24"), (there, "10.9.9.2/24")):
        space.run(["ip", "addr", "add", address, "dev", "eth1"])
    before = received(here, "drain1")
    there.run(["ping", "-c3", "-i0.1", "-W5", "10.9.9.1"])
    assert received(here, "drain1") >= before + 3
