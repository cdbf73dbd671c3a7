"""Objects of a node's devices: emulated ports, RDMA devices, and their GIDs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lab.audit.objects.audited_object import AuditedObject

if TYPE_CHECKING:
    from lab.audit.objects.audited_object import Counters, Text

IN_KERNEL: Final = "in kernel"
"""The setting of a port that says whether its programs run with its configuration."""


@dataclass(frozen=True, slots=True)
class PortAudit(AuditedObject):
    """The configuration of an emulated port in full, with the names of ``rocelab qos``."""

    LABEL = "port"
    KEY = ("interface",)
    interface: str
    settings_in_full: Text
    in_kernel: bool
    """Whether the programs of the port run with this configuration."""


@dataclass(frozen=True, slots=True)
class RdmaDeviceAudit(AuditedObject):
    """An RDMA device of a NIC."""

    LABEL = "rdma device"
    KEY = ("name",)
    STATE = ("counters",)
    LEADING = "state"
    name: str
    interface: str
    state: str
    """ACTIVE if it works, ``gone`` without device."""
    counters: Counters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GidAudit(AuditedObject):
    """An entry of an RDMA device's GID table."""

    LABEL = "gid"
    KEY = ("device", "index")
    device: str
    index: int
    address: str
    type: str
    interface: str
