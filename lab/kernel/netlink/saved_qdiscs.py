"""The qdiscs of an interface, saved as rtnetlink lists them and restored from that (tc(8), rtnetlink(7))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.kernel.netlink.client import dump
from lab.kernel.netlink.nlmsg import attribute, text
from lab.kernel.netlink.rtnl import CREATE, enclose
from lab.kernel.netlink.tc_hooks import CLSACT, GETQDISC, TCMSG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.kernel.netlink.rtnl import NetlinkBatch

# From <linux/rtnetlink.h> and <linux/pkt_sched.h>.
_NEWQDISC: Final = 36
_TCA_KIND, _TCA_OPTIONS = 1, 2
_ROOT: Final = 0xFFFFFFFF
DEFAULT: Final = "noqueue"
"""The default qdisc of a veth and of the loopback."""
KEPT: Final = frozenset({"tbf", "netem"})
"""Kinds whose listed options create them again unchanged: those that shape links."""


@dataclass(frozen=True, slots=True)
class SavedQdisc:
    """One qdisc: its parent, handle and kind, and its options as the kernel lists them, in hexadecimal."""

    parent: int
    handle: int
    kind: str
    options: str


def queues(index: int) -> list[SavedQdisc]:
    """Return the qdiscs of an interface of the calling thread's namespace, without clsact, the root first."""
    found = []
    for each in dump(GETQDISC, TCMSG):
        _, of, handle, parent, _ = TCMSG.unpack(each.fixed)
        if of == index and parent != CLSACT:
            options = each.attributes.get(_TCA_OPTIONS, b"").hex()
            found.append(
                SavedQdisc(parent=parent, handle=handle, kind=text(each.attributes[_TCA_KIND]), options=options)
            )
    return sorted(found, key=lambda queue: queue.parent != _ROOT)


def put_back(batch: NetlinkBatch, index: int, kept: Sequence[SavedQdisc]) -> None:
    """Restore saved qdiscs of the kinds ``KEPT`` on an interface that has its default qdisc; skip the default."""
    for queue in kept:
        if queue.kind == DEFAULT:
            continue
        place = TCMSG.pack(0, index, queue.handle, queue.parent, 0)
        kind = attribute(_TCA_KIND, queue.kind.encode() + b"\0")
        content = place + kind + attribute(_TCA_OPTIONS, bytes.fromhex(queue.options))
        batch.add(enclose(content, _NEWQDISC, CREATE), f"qdisc {queue.kind}")
