"""Attach impairments (loss, corruption, duplication, rewritten fields) to an interface's tc hooks, and read them.

::

    wire --> place 1, 2 .. --> port_rx --> ...  --> place 1, 2 .. --> port_tx --> queue --> wire
             (ingress)                              (egress)

They work on emulated ports and on plain links. An impairment is a BPF program with its own map. Only the tc filter
holds references to them, so both are freed with the filter or the interface. Its counts are only in that map: they do
not appear in the counters of the interface, qdisc or port.
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
"""Places on a hook are 1 to 99, in the order in which packets pass them; the emulated port follows."""
_PROGRAM: Final = "impair"
_MAP: Final = "truth"
_NAME: Final = "rl_impair"
_NAME_WITH_HOOKS: Final = "rl_impair_hooks"
"""The name of filters on a clsact qdisc that an impairment created; the last of them to be removed deletes it."""
FILTER_NAMES: Final = frozenset({_NAME, _NAME_WITH_HOOKS})
"""The names of the tc filters that are impairments."""


@dataclass(frozen=True, slots=True)
class ImpairmentHook:
    """The place of an impairment: an interface by its ifindex, a hook, and the order on the hook."""

    namespace: Namespace
    index: int
    hook: Hook
    order: int = 1

    @property
    def turn(self) -> Turn:
        """The hook and the order, as ``tc_hooks`` uses them."""
        return self.hook, self.order

    def __str__(self) -> str:
        return f"place {self.order} on {self.hook} of interface {self.index} in {self.namespace.name}"


@dataclass(frozen=True, slots=True)
class ImpairmentCounts:
    """Packet counts of an impairment since it was attached.

    - ``struck_bytes``: bytes of all frames that were lost, corrupted, changed or duplicated, without FCS.
    - ``dscp_matched``, ``dscp_struck``: matching and affected packets by the IP DSCP before any rewrite.
    - ``opcode_matched``, ``opcode_struck``: the same by RoCEv2 opcode.

    The mappings leave out zeros.
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
    """Changes that failed: no memory, or a packet shorter than its headers claim."""
    struck_bytes: int
    dscp_matched: Mapping[int, int]
    dscp_struck: Mapping[int, int]
    opcode_matched: Mapping[int, int]
    opcode_struck: Mapping[int, int]


def apply(place: ImpairmentHook, impairment: Impairment) -> None:
    """Impair the packets that pass a place from now on; ``remove`` is the inverse.

    UsageError if the place is taken or does not exist, or for duplication on egress. EnvironmentLacks without root or
    the needed kernel features; OperationFailed if the kernel rejects the program. After an error, nothing is left.
    """
    if not 1 <= place.order <= LAST_PLACE:
        raise UsageError(f"there is no {place}", f"places go from 1 to {LAST_PLACE}")
    if impairment.duplicate and place.hook is not Hook.INGRESS:
        raise UsageError(f"{place} cannot duplicate", "duplicate received packets at the other end of the link")
    with bpf_object.Object.open(type_layouts.compile_checked(layout.SOURCE)) as program:
        program.set_constant("rl_asked", layout.record(impairment, place.order).tobytes())
        program.load()
        place.namespace.inside(functools.partial(_attach, place, program.program(_PROGRAM)))


def remove(place: ImpairmentHook) -> None:
    """Remove the impairment of a place, if there is one, and the clsact qdisc if an impairment created it."""
    place.namespace.inside(functools.partial(_detach, place))


def read(place: ImpairmentHook) -> ImpairmentCounts:
    """Return the counts of the impairment of a place; OperationFailed if there is none."""
    found = _find(place.namespace.inside(functools.partial(tc_hooks.filters, place.index)), place)
    if found is None:
        raise OperationFailed(f"no impairment has {place}", "heal the fault, or bring the fabric down")
    with prog_info.map_of(found.program, _MAP) as descriptor:
        truth = array_maps.mapped(descriptor, layout.TRUTH)[0].copy()
    values: dict[str, Any] = {name: _plain(truth[name]) for name in layout.TRUTH.names or ()}
    return ImpairmentCounts(**values)


def applied(namespace: Namespace, index: int) -> list[ImpairmentHook]:
    """Return the places of an interface's impairments, ingress first, in the order on the hook."""
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
    return found.name in FILTER_NAMES


def _plain(value: np.uint64 | np.ndarray) -> int | dict[int, int]:
    if isinstance(value, np.ndarray):
        return {int(number): int(value[number]) for number in np.flatnonzero(value)}
    return int(value)
