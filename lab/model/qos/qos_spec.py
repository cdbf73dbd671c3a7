"""The models of the key ``qos`` in a topology file: every key, its meaning and its bounds."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from lab.model.qos.congestion.cc_profile import CcProfile
from lab.model.qos.congestion.cc_spec import CcSpec
from lab.model.qos.port import CLASSES, MAX_QUANTA, StormAction, Trust
from lab.model.qos.profile import (
    BufferProfile,
    EcnProfile,
    GroupProfile,
    MapProfile,
    NicProfile,
    PfcProfile,
    QosIntent,
    QosProfile,
    WatchdogProfile,
)
from lab.model.qos.qos_values import (
    Alpha,
    Amount,
    Class,
    DrainRate,
    DscpKey,
    DwrrWeight,
    GroupKey,
    Names,
    PcpKey,
    PortName,
    PriorityKey,
    Probability,
    ProfileName,
    QueueKey,
    Size,
    Span,
)
from lab.model.values.fields import SECTION, NodeName

_KEYED: Final = Field(json_schema_extra={"additionalProperties": False})


class _Section(BaseModel):
    """Base of all mappings of the section."""

    model_config = SECTION


class MapSpec(_Section):
    """Maps of packets to priorities, and of priorities to queues and priority groups.

    Other entries stay unchanged.
    """

    trust: Annotated[Trust, Field(strict=False)] | None = None
    """The field that determines the priority: dscp (of IP) or pcp (of a VLAN tag)."""
    dscp: Annotated[dict[DscpKey, Class], _KEYED] = {}
    """DSCP to priority, like {26: 3}."""
    pcp: Annotated[dict[PcpKey, Class], _KEYED] = {}
    """PCP to priority."""
    queue: Annotated[dict[PriorityKey, Class], _KEYED] = {}
    """Priority to egress queue."""
    group: Annotated[dict[PriorityKey, Class], _KEYED] = {}
    """Priority to ingress priority group. Lossless and lossy priorities must not share one."""


class GroupSpec(_Section):
    """Buffer of an ingress priority group. It is lossless if a priority of pfc.priorities maps to it."""

    reserved: Amount | None = None
    """Buffer reserved for the group, like 18KB."""
    alpha: Alpha | None = None
    """Dynamic threshold: the group may use alpha times the free shared pool. A power of two."""
    xoff: Amount | None = None
    """Static threshold instead: above it a lossless group pauses its peer, a lossy one drops. Like 400KB or 32ms."""
    xon: Amount | None = None
    """A pause ends when the group is down to this; at most half of a new xoff, unless both are set."""
    headroom: Amount | None = None
    """Buffer above the threshold for packets that arrive until the peer stops; by default as computed."""

    @model_validator(mode="after")
    def _one_threshold(self) -> GroupSpec:
        if self.alpha is not None and self.xoff is not None:
            raise ValueError("has both alpha and xoff; keep one: they are two forms of the threshold")
        return self


class BufferSpec(_Section):
    """Sizes. An amount is a size (40KB), or a time (3ms) at the link's rate."""

    pool: Size | None = None
    """Total buffer of a node, shared by its ports; by default the sum of their needs. Not for single interfaces."""
    groups: Annotated[dict[GroupKey, GroupSpec], _KEYED] = {}
    """Priority groups by number."""
    queues: Annotated[dict[QueueKey, Amount], _KEYED] = {}
    """Limits of egress queues by number, for packets of lossy priorities."""


class WatchdogSpec(_Section):
    """The PFC watchdog. Any of its keys turns it on, unless enabled is false."""

    enabled: bool | None = None
    """Whether the watchdog is enabled."""
    detection: Span | None = None
    """A queue with packets is in a storm after it was paused for this time and sent nothing."""
    restoration: Span | None = None
    """A queue is restored after it was not paused for this time."""
    action: Annotated[StormAction, Field(strict=False)] | None = None
    """The action on packets of the queue meanwhile: drop, or forward in spite of the pause."""


class PfcSpec(_Section):
    """Priority-based flow control (IEEE 802.1Q clause 36)."""

    priorities: Annotated[list[Class], Field(max_length=CLASSES)] | None = None
    """The lossless priorities, like [3]; [] for none."""
    tx: bool | None = None
    """Whether the port pauses its peer."""
    rx: bool | None = None
    """Whether the port obeys its peer's pauses."""
    quanta: Annotated[int, Field(ge=1, le=MAX_QUANTA)] | None = None
    """Duration of a pause, in 512 bit times of the link."""
    watchdog: WatchdogSpec = WatchdogSpec()
    """Protection against a peer that never stops pausing."""


class EcnSpec(_Section):
    """WRED marking of one egress queue. Any of its keys turns it on, unless enabled is false."""

    enabled: bool | None = None
    """Whether the queue marks."""
    kmin: Amount | None = None
    """No packet is marked up to this depth, like 40KB or 3ms."""
    kmax: Amount | None = None
    """Every packet is marked above this depth."""
    pmax: Probability | None = None
    """Share of packets marked at kmax, like 10%."""


class NicSpec(_Section):
    """Settings of hosts only."""

    drain: DrainRate | None = None
    """Rate at which the host takes packets from its NIC, like 50Mbit, or unlimited. A slow receiver pauses its leaf.
    """
    cc: CcSpec = CcSpec()
    """Congestion control: answers to CE marks, and the rate of each QP."""


class ProfileSpec(_Section):
    """A profile. It sets the fields that it names; the others keep the values of less specific profiles."""

    map: MapSpec = MapSpec()
    """Classification."""
    buffer: BufferSpec = BufferSpec()
    """Buffer sizes and thresholds."""
    pfc: PfcSpec = PfcSpec()
    """Priority-based flow control."""
    ecn: Annotated[dict[QueueKey, EcnSpec], _KEYED] = {}
    """ECN marking, by egress queue."""
    scheduler: Annotated[dict[QueueKey, DwrrWeight], _KEYED] = {}
    """By egress queue: strict, or its DWRR weight from 1 to 255."""
    nic: NicSpec = NicSpec()
    """Settings of hosts only."""


class RolesSpec(_Section):
    """Profiles of all nodes of a tier."""

    superspine: Names = []
    """Profiles of super-spines."""
    spine: Names = []
    """Profiles of spines."""
    leaf: Names = []
    """Profiles of leaves."""
    host: Names = []
    """Profiles of hosts."""


class QosSpec(_Section):
    """QoS profiles and their places. The most specific one wins, field by field."""

    fabric: Names = []
    """Profiles of every port: a preset (`rocelab qos presets`), a profile, or a list; the last one wins."""
    roles: RolesSpec = RolesSpec()
    """Profiles of all nodes of a tier."""
    nodes: Annotated[dict[NodeName, Names], _KEYED] = {}
    """Profiles of single nodes."""
    interfaces: Annotated[dict[PortName, Names], _KEYED] = {}
    """Profiles of single interfaces, like leaf1:swp3."""
    profiles: Annotated[dict[ProfileName, ProfileSpec], _KEYED] = {}
    """Profiles by name."""


def _expanded(value: Any) -> Any:
    """Expand ``qos: lab``, which is short for ``qos: {fabric: lab}``."""
    return {"fabric": [value]} if isinstance(value, str) else value


def _or_a_name(schema: dict[str, Any]) -> None:
    schema["anyOf"].insert(1, {"type": "string", "examples": ["lab"]})


Qos: TypeAlias = Annotated[QosSpec | None, BeforeValidator(_expanded), Field(json_schema_extra=_or_a_name)]


def make_intent(spec: QosSpec) -> QosIntent:
    """Convert ``spec`` from pydantic to a ``QosIntent``."""
    return QosIntent(
        profiles={name: make_profile(profile) for name, profile in spec.profiles.items()},
        fabric=tuple(spec.fabric),
        roles={role: tuple(names) for role, names in _fields(spec.roles).items() if names},
        nodes={node: tuple(names) for node, names in spec.nodes.items()},
        interfaces={port: tuple(names) for port, names in spec.interfaces.items()},
    )


def make_profile(spec: ProfileSpec) -> QosProfile:
    """Convert a profile from pydantic to a ``QosProfile``."""
    priorities = None if spec.pfc.priorities is None else tuple(spec.pfc.priorities)
    watchdog = WatchdogProfile(**_fields(spec.pfc.watchdog))
    groups = {number: GroupProfile(**_fields(group)) for number, group in spec.buffer.groups.items()}
    return QosProfile(
        map=MapProfile(**_fields(spec.map)),
        buffer=BufferProfile(**{**_fields(spec.buffer), "groups": groups}),
        pfc=PfcProfile(**{**_fields(spec.pfc), "priorities": priorities, "watchdog": watchdog}),
        ecn={number: EcnProfile(**_fields(ecn)) for number, ecn in spec.ecn.items()},
        scheduler=dict(spec.scheduler),
        nic=NicProfile(**{**_fields(spec.nic), "cc": CcProfile(**_fields(spec.nic.cc))}),
    )


def _fields(section: BaseModel) -> dict[str, Any]:
    return {name: getattr(section, name) for name in type(section).model_fields}
