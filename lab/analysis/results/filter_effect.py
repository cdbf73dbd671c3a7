"""Determine whether a filter excludes pause frames, so that their absence from a capture means nothing."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.wire.filter.expression import All, Any, LinkCondition, Not

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.wire.filter.expression import Expression

_FRAMES: Final = (
    bytes.fromhex("0180c20000010200000000098808" + "0101" + "00ff" + "ffff" * 8).ljust(60, b"\0"),
    bytes.fromhex("0180c20000010200000000098808" + "0001" + "ffff").ljust(60, b"\0"),
)
"""A PFC frame for all classes, and a Pause frame (IEEE 802.3 annexes 31D and 31B)."""
_NOBODY: Final = IPv4Address("0.0.0.0")  # noqa: S104 - pause frames have no IP address, so any would do


def hidden_by(wanted: Expression | None, captured: Sequence[str]) -> str:
    """Return why pause frames would be absent: the filter ``wanted``, or the filters ``captured`` of the interfaces.

    Return an empty string if they would be present. The effect of filters in other languages, like tcpdump's, is
    unknown.
    """
    if wanted is not None and not _lets_through(wanted):
        return "left out by the filter"
    if not captured:
        return ""
    from lab.wire.filter.parse import parse  # noqa: PLC0415 - most captures have no filter

    for text in captured:
        try:
            if _lets_through(parse(text, lambda _: [_NOBODY])):
                return ""
        except UsageError:
            return f"perhaps not captured: the capture filter was {text!r}"
    return f"not captured: the capture filter was {captured[0]!r}"


def _lets_through(expression: Expression) -> bool:
    from lab.wire.filter.match import matches  # noqa: PLC0415
    from lab.wire.frame import decode  # noqa: PLC0415

    at_any_link = [_anywhere(expression, link) for link in (True, False)]
    return any(matches(each, decode(frame)) for each in at_any_link for frame in _FRAMES)


def _anywhere(expression: Expression, there: bool) -> Expression:
    """Return the filter for packets at a link that it names (``there``), or at another link."""
    match expression:
        case All(terms):
            return All(tuple(_anywhere(term, there) for term in terms))
        case Any(terms):
            return Any(tuple(_anywhere(term, there) for term in terms))
        case Not(term):
            return Not(_anywhere(term, there))
        case LinkCondition():
            return All(()) if there else Any(())
        case _:
            return expression
