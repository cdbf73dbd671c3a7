"""Traffic control: rtnetlink requests for root qdiscs, BPF programs and redirection, for a ``Batch`` to carry.

Each request is encoded once and then given its numbers: a big fabric has thousands that differ in these alone.
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
"""Where struct tcmsg has the handle: each port's root has a major number of its own."""
_ROOT: Final = 0xFFFFFFFF
_CLSACT_HANDLE: Final = 0xFFFF0000
_INGRESS: Final = PARENTS[Hook.INGRESS]
_EGRESS: Final = PARENTS[Hook.EGRESS]
"""Parents: TC_H_ROOT of <linux/pkt_sched.h>, and the hooks."""
_ETH_P_ALL: Final = 3
_PROGRAM: Final = 100
"""The priority of a port's program: it sees a packet before it is redirected. The numbers below are for what is to
befall a packet before the port sees it."""
_DIRECT_ACTION: Final = 1
"""TCA_BPF_FLAG_ACT_DIRECT of <linux/pkt_cls.h>: what the program returns is the action."""
_STOLEN: Final = 4
_EGRESS_REDIRECT: Final = 1
"""TC_ACT_STOLEN of <linux/pkt_cls.h> and TCA_EGRESS_REDIR of <linux/tc_act/tc_mirred.h>."""
_ONLY: Final = 1
"""A filter's handle: with it the kernel refuses another one of the same priority."""


def set_root(batch: NetlinkBatch, index: int, kind: str, major: int) -> None:
    """Put a qdisc without options at the root of an interface, as ``major``: in place of what is there.

    The kernel refuses a ``major`` that another kind has on the interface; the same kind stays as it is.
    """
    request = bytearray(_qdisc(RTM_NEWQDISC, REPLACE, _ROOT, 0, kind))
    _NUMBER.pack_into(request, _HANDLE_AT, major << 16)
    batch.add_for(index, bytes(request), f"qdisc {kind}")


def delete_root(batch: NetlinkBatch, index: int) -> None:
    """Take the root qdisc away, with what it holds; the interface gets the kernel's default one."""
    batch.add_for(index, _qdisc(RTM_DELQDISC, 0, _ROOT, 0, None), "root qdisc")


def add_clsact(batch: NetlinkBatch, index: int) -> None:
    """Give an interface the hooks that ingress and egress filters attach to (tc-bpf(8))."""
    batch.add_for(index, _qdisc(RTM_NEWQDISC, CREATE, CLSACT, _CLSACT_HANDLE, "clsact"), "qdisc clsact")


def delete_clsact(batch: NetlinkBatch, index: int) -> None:
    """Take the hooks away, and all filters on them."""
    batch.add_for(index, _qdisc(RTM_DELQDISC, 0, CLSACT, _CLSACT_HANDLE, None), "qdisc clsact")


def add_bpf_ingress(batch: NetlinkBatch, index: int, program: int, name: str) -> None:
    """Run a loaded program, by its descriptor, on every packet that comes in: it decides (direct action)."""
    batch.add_for(index, _bpf(_INGRESS, program, name), f"ingress program {name}")


def add_bpf_egress(batch: NetlinkBatch, index: int, program: int, name: str) -> None:
    """Run a loaded program on every packet on its way to the root qdisc: it decides (direct action)."""
    batch.add_for(index, _bpf(_EGRESS, program, name), f"egress program {name}")


def add_filter(batch: NetlinkBatch, index: int, turn: Turn, program: int, name: str) -> None:
    """Run a loaded program when it is its turn; the kernel refuses one that is taken."""
    hook, priority = turn
    what = f"{hook} program {name} of priority {priority}"
    batch.add_for(index, _bpf(PARENTS[hook], program, name, priority, _ONLY), what)


def delete_filter(batch: NetlinkBatch, index: int, turn: Turn) -> None:
    """Take a program away from a hook."""
    hook, priority = turn
    request = _filter("bpf", PARENTS[hook], priority, None)
    batch.add_for(index, request, f"{hook} program of priority {priority}")


def add_ingress_redirect(batch: NetlinkBatch, index: int, to_index: int) -> None:
    """Send what comes in, and a program let pass, out of another interface of the namespace: an ifb."""
    request = bytearray(_redirection())
    _NUMBER.pack_into(request, len(request) - _NUMBER.size, to_index)  # the last member of its last attribute
    batch.add_for(index, bytes(request), "ingress redirection")


def delete_ingress_redirect(batch: NetlinkBatch, index: int) -> None:
    """Let the interface's own namespace have again what comes in."""
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
    """A filter to be made; without options, to be deleted."""
    message = tcmsg()
    message["parent"] = hook
    message["info"] = priority << 16 | socket.htons(_ETH_P_ALL)
    if options is None:
        message["attrs"] = [("TCA_KIND", kind)]
        return encode(message, RTM_DELTFILTER)
    message["attrs"] = [("TCA_KIND", kind), ("TCA_OPTIONS", {"attrs": options})]
    return encode(message, RTM_NEWTFILTER, CREATE)
