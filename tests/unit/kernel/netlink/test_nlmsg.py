"""Netlink's messages taken apart, against pyroute2, which puts them together."""

import errno
import struct

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from lab.kernel.netlink.nlmsg import DONE, ERROR, HEADER, NetlinkMessage, attributes, messages, text


def encoded(name: str, mtu: int) -> bytes:
    message = ifinfmsg()
    message["header"]["type"], message["header"]["sequence_number"] = 16, mtu
    message["attrs"] = [("IFLA_IFNAME", name), ("IFLA_MTU", mtu)]
    message.encode()
    return bytes(message.data)


def test_messages_and_attributes_are_as_pyroute2_put_them_together() -> None:
    """Names of any length: each is padded to four bytes."""
    names = ["e", "et", "eth", "eth1", "eth10"]
    found = list(messages(b"".join(encoded(name, 1500 + number) for number, name in enumerate(names))))
    assert [(message.kind, message.sequence) for message in found] == [(16, 1500 + n) for n in range(len(names))]
    told = [attributes(message.content[16:]) for message in found]  # behind struct ifinfomsg
    assert [text(each[3]) for each in told] == names
    assert [struct.unpack("=I", each[4])[0] for each in told] == [1500 + n for n in range(len(names))]


def acknowledgement(code: int, *, said: str = "") -> bytes:
    """With the header of the request alone (NETLINK_CAP_ACK), and the kernel's words."""
    words = struct.pack("=HH", 4 + len(said) + 1, 1) + said.encode() + b"\0" if said else b""
    content = struct.pack("=i", code) + bytes(HEADER.size) + words
    return HEADER.pack(HEADER.size + len(content), ERROR, 0x300, 7, 0) + content + bytes(-len(content) % 4)


def test_an_acknowledgement_says_what_was_refused_and_why() -> None:
    good, bad = messages(acknowledgement(0) + acknowledgement(-errno.EEXIST, said="it is there"))
    assert (good.refused, good.remarks) == (0, {})
    assert (bad.refused, bad.sequence, text(bad.remarks[1])) == (errno.EEXIST, 7, "it is there")


def test_a_list_says_at_its_end_whether_it_is_whole() -> None:
    """netlink_dump() of the kernel puts there what ended it: 0, or an error number below it."""
    assert NetlinkMessage(DONE, 0, 0, struct.pack("=i", 0)).refused == 0
    assert NetlinkMessage(DONE, 0, 0, struct.pack("=i", -errno.EINVAL)).refused == errno.EINVAL
    assert NetlinkMessage(DONE, 0, 0, b"").refused == 0
    assert NetlinkMessage(16, 0, 0, struct.pack("=i", -1)).refused == 0


@pytest.mark.parametrize("damaged", [b"", b"\0" * 15, bytes(32), b"\xff" * 40])
def test_what_is_damaged_ends(damaged: bytes) -> None:
    assert len(list(messages(damaged))) <= len(damaged) // HEADER.size
    assert len(attributes(damaged)) <= len(damaged) // 4


def test_flags_of_an_attribute_are_not_its_type() -> None:
    assert attributes(struct.pack("=HHI", 8, 0x8000 | 5, 1)) == {5: struct.pack("=I", 1)}
