"""The filters on an interface's clsact hooks (tc-bpf(8)), as rtnetlink lists them."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from lab.kernel.netlink.client import dump
from lab.kernel.netlink.nlmsg import attributes, text

# From <linux/rtnetlink.h> and <linux/pkt_cls.h>.
GETQDISC: Final = 38
_GETTFILTER: Final = 46
TCMSG: Final = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, information. GETQDISC lists one for each qdisc."""
_TCA_OPTIONS, _TCA_BPF_NAME, _TCA_BPF_ID = 2, 7, 11
CLSACT: Final = 0xFFFFFFF1
"""Parent of the clsact qdisc: TC_H_CLSACT of <linux/pkt_sched.h>."""


class Hook(StrEnum):
    """The place of a program: on received packets, or on sent packets before the root qdisc."""

    INGRESS = "ingress"
    EGRESS = "egress"


Turn: TypeAlias = tuple[Hook, int]
"""A hook and a priority: programs on a hook run in the order of their priorities, lowest first."""
PARENTS: Final = {Hook.INGRESS: 0xFFFFFFF2, Hook.EGRESS: 0xFFFFFFF3}
"""The parent of each hook's filters: TC_H_CLSACT with TC_H_MIN_INGRESS or TC_H_MIN_EGRESS."""
REDIRECT: Final = 200
"""The priority of a redirection to another interface: after all programs."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter on a hook: its hook and priority, and the name and id of its BPF program.

    The name is "" and the id 0 for a filter that is no BPF program.
    """

    turn: Turn
    name: str
    program: int


def filters(index: int) -> list[Filter]:
    """Return the filters on an interface of the calling thread's namespace. OperationFailed if the kernel refuses."""
    found = []
    for hook, parent in PARENTS.items():
        for each in dump(_GETTFILTER, TCMSG, TCMSG.pack(0, index, 0, parent, 0)):
            *_, information = TCMSG.unpack(each.fixed)
            options = attributes(each.attributes.get(_TCA_OPTIONS, b""))
            name, program = options.get(_TCA_BPF_NAME, b""), options.get(_TCA_BPF_ID, b"")
            if options:  # the first message of each priority only reports its existence
                turn = hook, information >> 16
                found.append(Filter(turn, text(name), int.from_bytes(program, sys.byteorder)))
    return found


def is_redirected(index: int) -> bool:
    """Return whether packets received on an interface of the calling thread's namespace are redirected."""
    return any(each.turn == (Hook.INGRESS, REDIRECT) for each in filters(index))


def has_hooks(index: int) -> bool:
    """Return whether an interface of the calling thread's namespace has a clsact qdisc for filters."""
    places = [TCMSG.unpack(each.fixed) for each in dump(GETQDISC, TCMSG)]
    return any(of == index and parent == CLSACT for _, of, _, parent, _ in places)
