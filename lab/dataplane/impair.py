"""Impairments on the hooks of an interface: put on, read, taken away. On emulated ports and on plain links alike.

::

    wire --> place 1, 2 .. --> port_rx --> ...  --> place 1, 2 .. --> port_tx --> queue --> wire
             (ingress)                              (egress)

An impairment is a program of its own with a map of its own, and nothing but its filter holds them: both go with it,
or with the interface. What it did is known to who reads that map, and to no counter of interface, qdisc or port.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane import impair_layout as layout
from lab.errors import OperationFailed, UsageError
from lab.kernel.bpf import array_maps, bpf_object, prog_info, type_layouts
from lab.kernel.netlink import tc_hooks
from lab.kernel.netlink.tc_hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.kernel.netlink.tc_hooks import Filter, Turn
    from lab.kernel.process.netns import Namespace
    from lab.model.impairment import Impairment

LAST_PLACE: Final = 99
"""Places on a hook go from 1 to this, in the order in which packets come by; the emulated port follows."""
_PROGRAM: Final = "impair"
_MAP: Final = "truth"
_NAME: Final = "rl_impair"
_NAME_WITH_HOOKS: Final = "rl_impair_hooks"
"""The name of a filter that, when it is the last, takes the hooks away that one of ours brought."""


@dataclass(frozen=True, slots=True)
class ImpairmentHook:
    """Where an impairment is: an interface by its index, a hook, and when its turn is there."""

    namespace: Namespace
    index: int
    hook: Hook
    order: int = 1

    @property
    def turn(self) -> Turn:
        """Its hook and order, as the kernel has them."""
        return self.hook, self.order

    def __str__(self) -> str:
        return f"place {self.order} on {self.hook} of interface {self.index} in {self.namespace.name}"


@dataclass(frozen=True, slots=True)
class ImpairmentCounts:
    """What an impairment has done since it was put on: packets, of which those that matched were numbered.

    ``struck_bytes`` are of the frames, FCS left out, of all that was lost, corrupted, changed or duplicated; the
    mappings have their packets, and those that matched, by DSCP (of IP) and opcode (of RoCEv2), without zeros. The
    DSCP is the one that a packet came with.
    """

    seen: int
    matched: int
    lost: int
    corrupted_frames: int
    corrupted_payloads: int
    dscp_rewritten: int
    ecn_cleared: int
    duplicated: int
    failed: int
    """Changes that could not be made: for want of memory, or of octets that a packet says it has."""
    struck_bytes: int
    dscp_matched: Mapping[int, int]
    dscp_struck: Mapping[int, int]
    opcode_matched: Mapping[int, int]
    opcode_struck: Mapping[int, int]


def apply(place: ImpairmentHook, impairment: Impairment) -> None:
    """Impair what goes by a place from now on; ``remove`` is the inverse.

    UsageError when the place is taken or there is no such place, or when duplicates are asked for on egress;
    EnvironmentLacks without root or what the kernel needs; OperationFailed when it refuses. Nothing is left then.
    """
    if not 1 <= place.order <= LAST_PLACE:
        raise UsageError(f"there is no {place}", f"places go from 1 to {LAST_PLACE}")
    if impairment.duplicate and place.hook is not Hook.INGRESS:
        raise UsageError(f"{place} cannot duplicate", "duplicate what comes in, at the other end of the link")
    with bpf_object.Object.open(type_layouts.compile_checked(layout.SOURCE)) as program:
        program.set_constant("rl_asked", layout.record(impairment, place.order).tobytes())
        program.load()
        place.namespace.inside(functools.partial(_attach, place, program.program(_PROGRAM)))


def remove(place: ImpairmentHook) -> None:
    """Take the impairment of a place away, and the hooks where one of ours brought them; none there is fine."""
    place.namespace.inside(functools.partial(_detach, place))


def read(place: ImpairmentHook) -> ImpairmentCounts:
    """What the impairment of a place has done; OperationFailed when there is none."""
    found = _find(place.namespace.inside(functools.partial(tc_hooks.filters, place.index)), place)
    if found is None:
        raise OperationFailed(f"no impairment has {place}", "heal the fault, or bring the fabric down")
    with prog_info.map_of(found.program, _MAP) as descriptor:
        truth = array_maps.mapped(descriptor, layout.TRUTH)[0].copy()
    values: dict[str, Any] = {name: _plain(truth[name]) for name in layout.TRUTH.names or ()}
    return ImpairmentCounts(**values)


def applied(namespace: Namespace, index: int) -> list[ImpairmentHook]:
    """Where an interface has impairments: on ingress first, in the order of their turns."""
    found = namespace.inside(functools.partial(tc_hooks.filters, index))
    return sorted(
        (ImpairmentHook(namespace, index, *each.turn) for each in found if _is_ours(each)),
        key=lambda place: (place.hook is Hook.EGRESS, place.order),
    )


def _attach(place: ImpairmentHook, program: int) -> None:
    from lab.kernel.netlink import tc  # noqa: PLC0415 - pyroute2, which reading does not need
    from lab.kernel.netlink.rtnl import NetlinkBatch  # noqa: PLC0415

    found = tc_hooks.filters(place.index)
    if _find(found, place) is not None:
        raise UsageError(f"{place} has an impairment", "take another place, or remove it first")
    bring = not tc_hooks.has_hooks(place.index)
    batch = NetlinkBatch()
    if bring:
        tc.add_clsact(batch, place.index)
    name = _NAME_WITH_HOOKS if bring or any(each.name == _NAME_WITH_HOOKS for each in found) else _NAME
    tc.add_filter(batch, place.index, place.turn, program, name)
    batch.commit()


def _detach(place: ImpairmentHook) -> None:
    from lab.kernel.netlink import tc  # noqa: PLC0415 - see _attach
    from lab.kernel.netlink.rtnl import NetlinkBatch  # noqa: PLC0415

    found = tc_hooks.filters(place.index)
    ours = _find(found, place)
    if ours is None:
        return
    batch = NetlinkBatch()
    tc.delete_filter(batch, place.index, place.turn)
    if found == [ours] and ours.name == _NAME_WITH_HOOKS:
        tc.delete_clsact(batch, place.index)
    batch.commit()


def _find(found: list[Filter], place: ImpairmentHook) -> Filter | None:
    return next((each for each in found if each.turn == place.turn and _is_ours(each)), None)


def _is_ours(found: Filter) -> bool:
    return found.name in {_NAME, _NAME_WITH_HOOKS}


def _plain(value: np.uint64 | np.ndarray) -> int | dict[int, int]:
    if isinstance(value, np.ndarray):
        return {int(number): int(value[number]) for number in np.flatnonzero(value)}
    return int(value)
