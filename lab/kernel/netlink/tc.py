"""rtnetlink requests for root qdiscs, BPF programs and redirection, collected in a ``NetlinkBatch``.

Each request is encoded once and then patched: a large fabric has thousands that differ only in their numbers.
"""

from __future__ import annotations

import socket
import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from pyroute2.netlink.rtnl import RTM_DELQDISC, RTM_DELTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from lab.kernel.netlink.rtnl import CREATE, REPLACE, Attributes, encode
from lab.kernel.netlink.tc_hooks import CLSACT, PARENTS, REDIRECT, Hook

if TYPE_CHECKING:
    from lab.kernel.netlink.rtnl import NetlinkBatch
    from lab.kernel.netlink.tc_hooks import Turn

_NUMBER: Final = struct.Struct("=I")
_HANDLE_AT: Final = 24
"""Offset of the handle in struct tcmsg, after the header. Each port's root has its own major number."""
_ROOT: Final = 0xFFFFFFFF
_CLSACT_HANDLE: Final = 0xFFFF0000
_INGRESS: Final = PARENTS[Hook.INGRESS]
_EGRESS: Final = PARENTS[Hook.EGRESS]
"""Parents: TC_H_ROOT of <linux/pkt_sched.h>, and the hooks."""
_ETH_P_ALL: Final = 3
_PROGRAM: Final = 100
"""The priority of a port's program, which runs before the redirection. Lower numbers are for programs that act on a
packet before the port processes it."""
_DIRECT_ACTION: Final = 1
"""TCA_BPF_FLAG_ACT_DIRECT of <linux/pkt_cls.h>: the program's return value is the action."""
_STOLEN: Final = 4
_EGRESS_REDIRECT: Final = 1
"""TC_ACT_STOLEN of <linux/pkt_cls.h> and TCA_EGRESS_REDIR of <linux/tc_act/tc_mirred.h>."""
_ONLY: Final = 1
"""A filter's handle: with it the kernel refuses a second filter of the same priority."""


def set_root(batch: NetlinkBatch, index: int, kind: str, major: int) -> None:
    """Replace an interface's root qdisc by one without options, with the handle ``major``.

    The kernel refuses a ``major`` that a qdisc of another kind has on the interface; one of the same kind is
    unchanged.
    """
    request = bytearray(_qdisc(RTM_NEWQDISC, REPLACE, _ROOT, 0, kind))
    _NUMBER.pack_into(request, _HANDLE_AT, major << 16)
    batch.add_for(index, bytes(request), f"qdisc {kind}")


def delete_root(batch: NetlinkBatch, index: int) -> None:
    """Delete the root qdisc and its queued packets; the interface gets the kernel's default."""
    batch.add_for(index, _qdisc(RTM_DELQDISC, 0, _ROOT, 0, None), "root qdisc")


def add_clsact(batch: NetlinkBatch, index: int) -> None:
    """Add the clsact qdisc, which has the hooks of ingress and egress filters (tc-bpf(8))."""
    batch.add_for(index, _qdisc(RTM_NEWQDISC, CREATE, CLSACT, _CLSACT_HANDLE, "clsact"), "qdisc clsact")


def delete_clsact(batch: NetlinkBatch, index: int) -> None:
    """Delete the clsact qdisc with all its filters."""
    batch.add_for(index, _qdisc(RTM_DELQDISC, 0, CLSACT, _CLSACT_HANDLE, None), "qdisc clsact")


def add_bpf_ingress(batch: NetlinkBatch, index: int, program: int, name: str) -> None:
    """Run a loaded program, given by its descriptor, on every received packet. Its return value is the action."""
    batch.add_for(index, _bpf(_INGRESS, program, name), f"ingress program {name}")


def add_bpf_egress(batch: NetlinkBatch, index: int, program: int, name: str) -> None:
    """Run a loaded program on every packet before the root qdisc. Its return value is the action."""
    batch.add_for(index, _bpf(_EGRESS, program, name), f"egress program {name}")


def add_filter(batch: NetlinkBatch, index: int, turn: Turn, program: int, name: str) -> None:
    """Run a loaded program at the hook and priority ``turn``. The kernel refuses one that is in use."""
    hook, priority = turn
    what = f"{hook} program {name} of priority {priority}"
    batch.add_for(index, _bpf(PARENTS[hook], program, name, priority, _ONLY), what)


def delete_filter(batch: NetlinkBatch, index: int, turn: Turn) -> None:
    """Remove the program at a hook and priority."""
    hook, priority = turn
    request = _filter("bpf", PARENTS[hook], priority, None)
    batch.add_for(index, request, f"{hook} program of priority {priority}")


def add_ingress_redirect(batch: NetlinkBatch, index: int, to_index: int) -> None:
    """Send received packets that the programs pass out of another interface of the namespace: an ifb."""
    request = bytearray(_redirection())
    _NUMBER.pack_into(request, len(request) - _NUMBER.size, to_index)  # the last member of its last attribute
    batch.add_for(index, bytes(request), "ingress redirection")


def delete_ingress_redirect(batch: NetlinkBatch, index: int) -> None:
    """Deliver received packets to the interface's own namespace again."""
    batch.add_for(index, _filter("matchall", _INGRESS, REDIRECT, None), "ingress redirection")


@cache
def _qdisc(request: int, flags: int, parent: int, handle: int, kind: str | None) -> bytes:
    message = tcmsg()
    message["parent"], message["handle"] = parent, handle
    message["attrs"] = [("TCA_KIND", kind)] if kind else []
    return encode(message, request, flags)


@cache
def _bpf(hook: int, program: int, name: str, priority: int = _PROGRAM, handle: int = 0) -> bytes:
    options: Attributes = [("TCA_BPF_FD", program), ("TCA_BPF_NAME", name), ("TCA_BPF_FLAGS", _DIRECT_ACTION)]
    request = bytearray(_filter("bpf", hook, priority, options))
    _NUMBER.pack_into(request, _HANDLE_AT, handle)
    return bytes(request)


@cache
def _redirection() -> bytes:
    parameters = {"eaction": _EGRESS_REDIRECT, "action": _STOLEN, "ifindex": 0}
    action = [
        ("TCA_ACT_KIND", "mirred"),
        ("TCA_ACT_OPTIONS", {"attrs": [("TCA_MIRRED_PARMS", parameters)]}),
    ]
    actions = {"attrs": [("TCA_ACT_PRIO_1", {"attrs": action})]}
    return _filter("matchall", _INGRESS, REDIRECT, [("TCA_MATCHALL_ACT", actions)])


def _filter(kind: str, hook: int, priority: int, options: Attributes | None) -> bytes:
    """Return a request to create a filter, or to delete it if ``options`` is None."""
    message = tcmsg()
    message["parent"] = hook
    message["info"] = priority << 16 | socket.htons(_ETH_P_ALL)
    if options is None:
        message["attrs"] = [("TCA_KIND", kind)]
        return encode(message, RTM_DELTFILTER)
    message["attrs"] = [("TCA_KIND", kind), ("TCA_OPTIONS", {"attrs": options})]
    return encode(message, RTM_NEWTFILTER, CREATE)
