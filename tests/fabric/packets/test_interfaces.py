"""Interfaces and queues as rtnetlink lists them, compared with the output of ``ip`` and ``tc``."""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from lab.errors import OperationFailed
from lab.kernel.netlink.client import dump
from lab.kernel.netlink.interfaces import interfaces, root_qdiscs
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from tests.inside import entered

pytestmark = pytest.mark.fabric

CABLES = 60
"""More than one answer of the kernel's holds."""
TBF = ["rate", "64bit", "burst", "2kb", "limit", "3000"]
"""After the first packets none leaves for a minute. Slower, and Ubuntu's tc finds the burst out of range: 274 s."""


@pytest.fixture
def space() -> Iterator[Namespace]:
    """Cables: the first is slow and has dropped packets, and the last is down."""
    space = Namespace(f"rv-{os.getpid()}-list")
    netns.create([space.name])
    try:
        furnish(space)
        yield space
    finally:
        netns.delete([space.name])


def furnish(space: Namespace) -> None:
    """Cables on which no host sends by itself."""
    for name in ("all", "default"):
        space.run(["sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"])
    lines = [f"link add a{n} mtu {1400 + n} type veth peer name b{n}" for n in range(CABLES)]
    lines += [f"link set {end}{n} up" for n in range(CABLES - 1) for end in "ab"]
    space.run(["ip", "-batch", "-"], stdin="\n".join(lines))
    space.run(["tc", "qdisc", "add", "dev", "a0", "root", "handle", "7:", "tbf", *TBF])
    with entered(space), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("a0", 0))
        for _ in range(20):
            with contextlib.suppress(OSError):  # ENOBUFS: it is dropped
                sender.send(bytes(500))


def said(space: Namespace, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(space.run(words).stdout)
    return found


def test_every_interface_is_as_ip_and_tc_have_it(space: Namespace) -> None:
    found = interfaces(space)
    dropped = {queue["dev"]: queue["drops"] for queue in said(space, "tc", "-s", "-json", "qdisc", "show")}
    assert dropped["a0"] == 20 - 2048 // 500 - 3000 // 500  # a bucket full of them left, and the queue was filled
    links = [link for link in said(space, "ip", "-s", "-json", "link", "show") if link["ifname"] != "lo"]
    assert len(links) == len(found) == 2 * CABLES
    for link in links:
        state, counted = found[link["ifname"]], link["stats64"]
        assert (state.mtu, state.up) == (link["mtu"], link["operstate"] == "UP")
        assert (state.rx_bytes, state.rx_packets) == (counted["rx"]["bytes"], counted["rx"]["packets"])
        assert (state.tx_bytes, state.tx_packets) == (counted["tx"]["bytes"], counted["tx"]["packets"])
        queued = dropped.get(link["ifname"], 0)
        assert state.drops == counted["rx"]["dropped"] + counted["tx"]["dropped"] + queued
    assert not found[f"a{CABLES - 1}"].up


def test_root_qdiscs_are_as_tc_has_them(space: Namespace) -> None:
    shown = said(space, "tc", "-json", "qdisc", "show")
    assert root_qdiscs(space) == {queue["dev"]: (queue["kind"], queue["handle"]) for queue in shown if queue["root"]}
    assert root_qdiscs(space)["a0"] == ("tbf", "7:")


def test_a_list_that_the_kernel_does_not_have_is_an_error() -> None:
    with pytest.raises(OperationFailed, match="rtnetlink: "):
        dump(0xFFF0, struct.Struct("=16x"))
