"""The congestion control of a NIC, as a comment of its link in a capture.

An analysis needs it to distinguish a lost CNP from a NIC that sends none::

    congestion control of h4:eth1 (10.0.0.4): np rp, min_time_between_cnps 0.02 s per qp
    congestion control of h4:eth1 (10.0.0.4): off
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from lab.model.qos.congestion.cc_registers import CnpModeration

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos

_OFF: Final = "off"
_NUMBER: Final = r"(?:0|[1-9]\d{0,8})(?:\.\d{1,12})?"
_NOTE: Final = re.compile(
    r"congestion control of (?P<port>\S{1,64}) \((?P<address>[0-9a-f.:]{2,45})\): "
    rf"(?:off|(?P<roles>np rp|np|rp), min_time_between_cnps (?P<apart>{_NUMBER}) s"
    rf" per (?P<scope>{'|'.join(CnpModeration)}))"
)


@dataclass(frozen=True, slots=True)
class NicNote:
    """The congestion control of a NIC at the time when a capture began.

    ``np``: it answers CE marks with CNPs. ``rp``: it slows QPs down on CNPs. ``apart``: the minimum time between CNPs
    in seconds, in ``scope``.
    """

    port: str
    address: str
    np: bool = False
    rp: bool = False
    apart: float = 0.0
    scope: CnpModeration = CnpModeration.QP

    @classmethod
    def of(cls, port: str, address: str, cc: CcQos | None) -> Self:
        """Return the note of a port's configuration; None is a NIC without congestion control."""
        if cc is None or not (cc.np or cc.rp):
            return cls(port, address)
        return cls(port, address, cc.np, cc.rp, cc.registers.min_time_between_cnps, cc.moderation)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a comment; None if it is another one."""
        found = _NOTE.fullmatch(text)
        if found is None:
            return None
        note, roles = cls(found["port"], found["address"]), (found["roles"] or "").split()
        if not roles:
            return note
        scope = CnpModeration(found["scope"])
        return replace(note, np="np" in roles, rp="rp" in roles, apart=float(found["apart"]), scope=scope)

    def __str__(self) -> str:
        head = f"congestion control of {self.port} ({self.address})"
        roles = [name for name, has in (("np", self.np), ("rp", self.rp)) if has]
        if not roles:
            return f"{head}: {_OFF}"
        apart = f"{self.apart:.12f}".rstrip("0").rstrip(".")
        return f"{head}: {' '.join(roles)}, min_time_between_cnps {apart} s per {self.scope}"
