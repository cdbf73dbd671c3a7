"""What is on the hooks of an interface (clsact, tc-bpf(8)), as rtnetlink lists it."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from lab.kernel.netlink.client import dump
from lab.kernel.netlink.nlmsg import attributes, text

# Of <linux/rtnetlink.h> and <linux/pkt_cls.h>.
GETQDISC: Final = 38
_GETTFILTER: Final = 46
TCMSG: Final = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, information; GETQDISC asks for one of each qdisc."""
_TCA_OPTIONS, _TCA_BPF_NAME, _TCA_BPF_ID = 2, 7, 11
CLSACT: Final = 0xFFFFFFF1
"""The parent of the qdisc that has the hooks: TC_H_CLSACT of <linux/pkt_sched.h>."""


class Hook(StrEnum):
    """Where a program sees packets: as they come in, or on their way to the root qdisc."""

    INGRESS = "ingress"
    EGRESS = "egress"


Turn: TypeAlias = tuple[Hook, int]
"""A hook, and the priority by which programs take turns there: the lowest comes first."""
PARENTS: Final = {Hook.INGRESS: 0xFFFFFFF2, Hook.EGRESS: 0xFFFFFFF3}
"""What the filters of a hook are below: TC_H_CLSACT with TC_H_MIN_INGRESS and TC_H_MIN_EGRESS."""
REDIRECT: Final = 200
"""The priority of what sends packets on to another interface: after all programs."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Something on a hook: its turn there, its name, and the number of its program.

    The name is "" and the number 0 for a filter that is no BPF program.
    """

    turn: Turn
    name: str
    program: int


def filters(index: int) -> list[Filter]:
    """The filters on an interface of the calling thread's namespace; OperationFailed when the kernel tells none."""
    found = []
    for hook, parent in PARENTS.items():
        for each in dump(_GETTFILTER, TCMSG, TCMSG.pack(0, index, 0, parent, 0)):
            *_, information = TCMSG.unpack(each.fixed)
            options = attributes(each.attributes.get(_TCA_OPTIONS, b""))
            name, program = options.get(_TCA_BPF_NAME, b""), options.get(_TCA_BPF_ID, b"")
            if options:  # the first message of each only says that there is one
                turn = hook, information >> 16
                found.append(Filter(turn, text(name), int.from_bytes(program, sys.byteorder)))
    return found


def is_redirected(index: int) -> bool:
    """Whether what an interface of the calling thread's namespace receives is sent out of another one."""
    return any(each.turn == (Hook.INGRESS, REDIRECT) for each in filters(index))


def has_hooks(index: int) -> bool:
    """Whether filters can be put on an interface of the calling thread's namespace."""
    places = [TCMSG.unpack(each.fixed) for each in dump(GETQDISC, TCMSG)]
    return any(of == index and parent == CLSACT for _, of, _, parent, _ in places)
