"""Objects of a router: daemons, lines of FRR's configuration, sessions of BGP and BFD, and VNIs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.audit.objects.audited_object import AuditedObject

if TYPE_CHECKING:
    from lab.audit.objects.audited_object import Counters

MAPPED: Final = "169.254.0.1"
"""FRR's gateway for next hops of the other family (RFC 8950)."""
ESTABLISHED: Final = "Established"
"""The state of a BGP session that is up (RFC 4271 section 8.2.2)."""
BGP_SHUTDOWN: Final = "Idle (Admin)"
"""The state of a BGP session that an administrator shut at this end, as FRR's summary has it."""
BFD_UP: Final = "up"
BFD_SHUTDOWN: Final = "shutdown"
"""The status of a BFD session that an administrator shut, here or in its profile (RFC 5880 section 6.8.16)."""
BFD_STARTING: Final = "starting"
"""The status of a BFD session that was never up: it begins with one packet a second (RFC 5880 section 6.8.3)."""


@dataclass(frozen=True, slots=True)
class DaemonAudit(AuditedObject):
    """A routing daemon."""

    LABEL = "daemon"
    KEY = ("name",)
    name: str
    running: bool


@dataclass(frozen=True, slots=True)
class FrrLineAudit(AuditedObject):
    """A line of FRR's running configuration."""

    LABEL = "frr"
    KEY = ("line",)
    line: str
    """With its contexts in front, separated by ``/``."""


@dataclass(frozen=True, slots=True)
class BgpSessionAudit(AuditedObject):
    """A BGP session."""

    LABEL = "bgp session"
    KEY = ("peer", "vrf")
    STATE = ("uptime", "established", "dropped", "last_reset", "reset_age", "prefixes")
    LEADING = "state"
    peer: str
    """The interface, or the peer's address."""
    vrf: str
    """"" for the default VRF."""
    state: str
    """By RFC 4271 section 8.2.2, or that an administrator shut it."""
    remote_as: int
    local_as: int
    hold_time: float
    """Seconds, as negotiated."""
    keepalive: float
    """Seconds, as negotiated."""
    families: tuple[str, ...]
    uptime: float
    """Seconds."""
    established: int
    """The number of times that it was established."""
    dropped: int
    """The number of times that it was lost."""
    last_reset: str
    """The reason of the last reset; "" if there was none."""
    reset_age: float
    """Seconds since the last reset."""
    prefixes: Counters
    """Prefixes accepted, by address family."""

    @property
    def transient(self) -> bool:
        """Whether it is up: its absence from an earlier state means that it came up since."""
        return self.state == ESTABLISHED


@dataclass(frozen=True, slots=True)
class BfdSessionAudit(AuditedObject):
    """A BFD session."""

    LABEL = "bfd session"
    KEY = ("interface", "peer")
    STATE = ("uptime", "diagnostic")
    LEADING = "status"
    interface: str
    peer: str
    status: str
    receive_interval: int
    """Milliseconds."""
    transmit_interval: int
    """Milliseconds."""
    multiplier: int
    uptime: float
    """Seconds."""
    diagnostic: str

    @property
    def transient(self) -> bool:
        """Whether it is up: as for BGP sessions."""
        return self.status == BFD_UP

    def settings(self) -> dict[str, str]:
        """Return nothing for a session that has not come up yet."""
        return {} if self.status == BFD_STARTING else AuditedObject.settings(self)


@dataclass(frozen=True, slots=True)
class VniAudit(AuditedObject):
    """A VNI, as zebra knows it."""

    LABEL = "vni"
    KEY = ("vni",)
    STATE = ("macs", "neighbours")
    vni: int
    type: str
    """L2 or L3."""
    vrf: str
    tunnel: str
    """The VXLAN interface."""
    local: str
    """The address of this VTEP."""
    remotes: tuple[str, ...]
    """The other VTEPs."""
    macs: int
    neighbours: int
