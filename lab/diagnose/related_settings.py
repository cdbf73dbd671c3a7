"""Causes that are a relation of two settings of a port: the setting that its siblings have otherwise is the fault.

Kmin is above XOFF because Kmin was raised, or because XOFF was lowered. The headroom is too small because it was
reduced, or because the link is longer than others. A port without a network has no address, or lacks the route
that the kernel adds with an address.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.audit.difference import ABSENT
from lab.audit.rules.route_widths import RULE
from lab.diagnose.causes.setting_fixes import remedies
from lab.diagnose.causes.setting_kinds import kind_of
from lab.diagnose.setting_causes import evidence_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.diagnose.diagnosis import Diagnosis, Found
    from lab.diagnose.differing import DifferingSetting

_LINES: Final = 8
"""The maximum number of evidence lines per cause."""


class _Relation(NamedTuple):
    own: frozenset[str]
    """The kinds of settings that the cause itself names."""
    other: frozenset[str]
    """The kinds of settings on the other side of the relation."""


_RELATIONS: Final[Mapping[str, _Relation]] = {
    "ecn-above-xoff": _Relation(frozenset({"ecn-differs"}), frozenset({"buffer-differs"})),
    "headroom-too-small": _Relation(frozenset({"buffer-differs"}), frozenset({"delay-differs", "rate-differs"})),
}
_NO_NETWORK: Final = "wrong-address"
"""The cause of a port without a network, as concluded from its routes."""
_ADDED: Final = re.compile(r"present: type unicast, protocol kernel, next hops dev (\S+)$")
"""The expected value of a route that the kernel adds with an address, if the node has that address."""


def with_related_settings(found: Diagnosis) -> Diagnosis:
    """Return the diagnosis with the other setting in place of a relation, if only that differs at the same ports."""
    return replace(found, causes=tuple(_of_other_setting(_of_route(each, found), found) for each in found.causes))


def _of_route(cause: Found, found: Diagnosis) -> Found:
    """Return a missing route in place of a missing address, if each port has the address."""
    lost = {port: each for each in found.differing if (port := _port_of_added(each))}
    if cause.cause != _NO_NETWORK or not {*cause.places} <= lost.keys():
        return cause
    mine = [lost[place] for place in cause.places]
    kind = kind_of(mine[0])
    if kind is None:
        return cause
    lines = tuple(evidence_of(each, found.end) for each in mine)
    fix = "; ".join(remedies(mine))
    return replace(
        cause,
        cause=kind.cause,
        title=kind.title,
        evidence=lines[:_LINES],
        rival="",
        tell="",
        fix=fix,
        words=kind.words,
    )


def _port_of_added(setting: DifferingSetting) -> str:
    """Return the port of a missing route to its network; "" for other settings."""
    added = _ADDED.match(setting.expected) if (setting.kind, setting.value) == ("route", ABSENT) else None
    return f"{setting.node}:{added[1]}" if added else ""


def _of_other_setting(cause: Found, found: Diagnosis) -> Found:
    relation = _RELATIONS.get(cause.cause)
    if relation is None:
        return cause
    at = {
        place: [each for each in found.differing if f"{each.node}:{each.interface}" == place]
        for place in cause.places
    }
    compared = [each for mine in at.values() for each in mine if each.against != RULE]
    settings = [(each, kind) for each in compared if (kind := kind_of(each))]
    names = {kind.cause for _, kind in settings}
    others = [(each, kind) for each, kind in settings if kind.cause in relation.other]
    if not all(at.values()) or not others or names & relation.own:
        return cause
    differing = [each for each, _ in others]
    kind = others[0][1]
    lines = [evidence_of(each, found.end) for each in differing]
    fix = "; ".join(remedies(differing))
    return replace(
        cause, cause=kind.cause, title=kind.title, evidence=(*lines, *cause.evidence)[:_LINES], rival=cause.cause,
        fix=fix, words=kind.words,
    )  # fmt: skip
