"""Requests of traffic control against bytes written down by hand from <linux/rtnetlink.h> and <linux/pkt_cls.h>.

That the kernel understands them as meant is shown in tests/vm/kernel/test_tc.py, where ``tc`` reads them back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink import links, tc
from lab.kernel.netlink.rtnl import NetlinkBatch

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = 0x8000
RTM_NEWLINK, RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWTFILTER = 16, 36, 37, 44
REQUEST_ACK = 0x001 | 0x004
CREATE_EXCL, CREATE_REPLACE = 0x400 | 0x200, 0x400 | 0x100
ROOT, CLSACT, INGRESS, EGRESS = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFFFFF2, 0xFFFFFFF3
ALL_PROTOCOLS = int.from_bytes(struct.pack("!H", 3), "little")
INDEX = 1007


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def tcmsg(kind: int, flags: int, *, handle: int, parent: int, info: int = 0, attributes: bytes = b"") -> bytes:
    body = struct.pack("=BxHiIII", 0, 0, INDEX, handle, parent, info) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST_ACK | flags, 0, 0) + body


def bpf_filter(hook: int, name: str) -> bytes:
    options = number(6, 42) + text(7, name) + number(8, 1)  # TCA_BPF_FD, TCA_BPF_NAME, TCA_BPF_FLAGS
    attributes = text(1, "bpf") + attribute(2, options)
    info = 100 << 16 | ALL_PROTOCOLS
    return tcmsg(RTM_NEWTFILTER, CREATE_EXCL, handle=0, parent=hook, info=info, attributes=attributes)


def redirection(to_index: int) -> bytes:
    # struct tc_mirred: index, capab, action (TC_ACT_STOLEN), refcnt, bindcnt, eaction (TCA_EGRESS_REDIR), ifindex
    mirred = attribute(2 | NESTED, attribute(2, struct.pack("=IIiiiiI", 0, 0, 4, 0, 0, 1, to_index)))
    actions = attribute(2, attribute(1, text(1, "mirred") + mirred))
    attributes = text(1, "matchall") + attribute(2, actions)
    info = 200 << 16 | ALL_PROTOCOLS
    return tcmsg(RTM_NEWTFILTER, CREATE_EXCL, handle=0, parent=INGRESS, info=info, attributes=attributes)


CASES = {
    "root": (
        lambda batch: tc.set_root(batch, INDEX, "rl_x", 7),
        tcmsg(RTM_NEWQDISC, CREATE_REPLACE, handle=7 << 16, parent=ROOT, attributes=text(1, "rl_x")),
    ),
    "no root": (
        lambda batch: tc.delete_root(batch, INDEX),
        tcmsg(RTM_DELQDISC, 0, handle=0, parent=ROOT),
    ),
    "clsact": (
        lambda batch: tc.add_clsact(batch, INDEX),
        tcmsg(RTM_NEWQDISC, CREATE_EXCL, handle=0xFFFF0000, parent=CLSACT, attributes=text(1, "clsact")),
    ),
    "no clsact": (
        lambda batch: tc.delete_clsact(batch, INDEX),
        tcmsg(RTM_DELQDISC, 0, handle=0xFFFF0000, parent=CLSACT),
    ),
    "ingress": (lambda batch: tc.add_bpf_ingress(batch, INDEX, 42, "port_rx"), bpf_filter(INGRESS, "port_rx")),
    "egress": (lambda batch: tc.add_bpf_egress(batch, INDEX, 42, "port_tx"), bpf_filter(EGRESS, "port_tx")),
    "redirection": (lambda batch: tc.add_ingress_redirect(batch, INDEX, 1009), redirection(1009)),
}


@pytest.mark.parametrize(("add", "expected"), CASES.values(), ids=CASES)
def test_a_request_is_what_the_kernel_s_headers_say(add: Callable[[NetlinkBatch], None], expected: bytes) -> None:
    batch = NetlinkBatch()
    add(batch)
    ((request, _),) = batch._requests
    assert request.hex(" ") == expected.hex(" ")


def test_each_root_has_a_handle_of_its_own() -> None:
    batch = NetlinkBatch()
    tc.set_root(batch, 1001, "rl_x", 1)
    tc.set_root(batch, 1002, "rl_x", 0xFFFE)
    (first, _), (second, _) = batch._requests
    assert [struct.unpack_from("=iI", request, 20) for request in (first, second)] == [
        (1001, 0x10000),
        (1002, 0xFFFE0000),
    ]


def test_an_ifb_is_made_by_name_and_index() -> None:
    batch = NetlinkBatch()
    links.add_ifb(batch, INDEX, "drain1")
    ((request, _),) = batch._requests
    body = struct.pack("=BxHiII", 0, 0, INDEX, 0, 0)
    attributes = text(3, "drain1") + number(31, 1) + number(32, 1) + attribute(18, text(1, "ifb"))
    header = struct.pack("=IHHII", 16 + len(body + attributes), RTM_NEWLINK, REQUEST_ACK | CREATE_EXCL, 0, 0)
    assert request.hex(" ") == (header + body + attributes).hex(" ")
