"""NCCL's environment variables for InfiniBand and RoCE, and their counterparts in UCX, which moves a job's messages.

A setting is used as it is written, also a wrong one: a job with the wrong GID index or traffic class is a lesson.
Settings without a counterpart are refused with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.model.values.yamltext import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.rdma.measure import Nic

_UNIT: Final = 4.096
"""Microseconds of a QP's timeout of 0: it is 4.096 us * 2^timeout (IBA vol. 1, 9.7.6.1.3)."""
_MAX_GIDS: Final = 1023
_DEVICE: Final = "NCCL_IB_HCA"
_TCLASS: Final = "NCCL_IB_TC"
_SOCKET: Final = "NCCL_SOCKET_IFNAME"
_MAX_SETTINGS: Final = 32
_NAMES: Final = re.compile(r"\^?=?[\w.-]+(?::1)?(?:,[\w.-]+(?::1)?)*", re.ASCII)


class _Counterpart(NamedTuple):
    """A number of NCCL, and the variable of UCX that means the same."""

    ucx: str
    low: int
    high: int
    text: Callable[[int], str] = str
    more: Mapping[str, str] = {}
    """Other variables of UCX that it needs; ``{}`` stands for the number on all rails of a rank."""


_NUMBERS: Final[Mapping[str, _Counterpart]] = {
    "NCCL_IB_GID_INDEX": _Counterpart("UCX_IB_GID_INDEX", 0, _MAX_GIDS),
    _TCLASS: _Counterpart("UCX_IB_TRAFFIC_CLASS", 0, 255),
    "NCCL_IB_TIMEOUT": _Counterpart("UCX_RC_VERBS_TIMEOUT", 1, 31, lambda number: f"{_UNIT * 2**number:.3f}us"),
    "NCCL_IB_RETRY_CNT": _Counterpart("UCX_RC_VERBS_RETRY_COUNT", 0, 7),
    "NCCL_IB_QPS_PER_CONNECTION": _Counterpart(
        "UCX_IB_NUM_PATHS", 1, 8, more={"UCX_MAX_RNDV_RAILS": "{}", "UCX_MAX_EAGER_RAILS": "{}"}
    ),
}
_NO_GPU: Final = "there are no GPUs"
_NO_HARDWARE: Final = "SoftRoCE has no such hardware"
_NOT_NCCL: Final = "NCCL itself does not run: MPICH and UCX do"
_REFUSED: Final[tuple[tuple[str, str, str], ...]] = (
    ("NCCL_IB_DISABLE|NCCL_NET", "no rank may use TCP", "leave it out"),
    ("NCCL_IB_SL", "packets of RDMA devices are untagged, so that a service level has no effect",
     "use NCCL_IB_TC: its DSCP selects the priority"),
    ("NCCL_IB_ROCE_VERSION_NUM|NCCL_IB_ADDR_FAMILY|NCCL_IB_ADDR_RANGE", "UCX does not search the GID table",
     "use NCCL_IB_GID_INDEX; rocelab finds the right one by default"),
    ("NCCL_ALGO|NCCL_PROTO", "MPICH has algorithms of its own", "use --algorithm, or algorithm: in a file"),
    ("NCCL_CROSS_NIC|NCCL_IB_MERGE_.*|NCCL_IB_SPLIT_DATA_ON_QPS", "UCX has no such setting", "leave it out"),
    ("NCCL_IB_(PCI_RELAXED_ORDERING|ADAPTIVE_ROUTING|ECE_ENABLE|USE_INLINE|PKEY|AR_THRESHOLD|CUDA_SUPPORT)",
     _NO_HARDWARE, "leave it out"),
    ("NCCL_(P2P|SHM|NVLS|NET_GDR|NET_SHARED|DMABUF|CUMEM|GRAPH|TOPO|NVB|MNNVL|GDR).*", _NO_GPU, "leave it out"),
    ("NCCL_.*", _NOT_NCCL, "rocelab docs jobs lists the settings"),
)  # fmt: skip
"""Patterns of names, the reason why there is no counterpart, and what to do instead."""


@dataclass(frozen=True, slots=True)
class NcclSettings:
    """Settings of a job by their names in NCCL."""

    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def tclass(self) -> int | None:
        """The traffic class of NCCL_IB_TC; None without it."""
        return int(self.written[_TCLASS]) if _TCLASS in self.written else None

    @property
    def gid_index(self) -> int | None:
        """The GID index that all ranks use; None if each uses that of its address."""
        text = self.written.get("NCCL_IB_GID_INDEX")
        return None if text is None else int(text)

    def variables(self, nic: Nic) -> dict[str, str]:
        """Return the variables of UCX at a rank that differ from those of a job without settings."""
        found: dict[str, str] = {}
        if _SOCKET in self.written:
            found["UCX_NET_DEVICES"] = net_devices(nic, self._connecting(nic))
        for name, text in self.written.items():
            if (known := _NUMBERS.get(name)) is not None:
                found[known.ucx] = known.text(int(text))
                lanes = int(text) * (1 + len(nic.rails))
                found |= {other: value.format(lanes) for other, value in known.more.items()}
        return found

    def _connecting(self, nic: Nic) -> str:
        """Return the interface of NCCL_SOCKET_IFNAME: that of a NIC whose name begins so, or the name as it is."""
        text = self.written[_SOCKET]
        if text.startswith("="):
            return text.removeprefix("=")
        return next((each.interface for each in (nic, *nic.rails) if each.interface.startswith(text)), text)

    def is_allowed(self, interface: str) -> bool:
        """Return whether NCCL_IB_HCA allows the RDMA device of an interface, as NCCL reads it.

        Names are beginnings, ``=`` demands whole names, and ``^`` excludes.
        """
        text = self.written.get(_DEVICE)
        if text is None:
            return True
        excludes, exact = text.startswith("^"), text.lstrip("^").startswith("=")
        names = [name.removesuffix(":1") for name in text.lstrip("^=").split(",")]
        matches = any(interface == name if exact else interface.startswith(name) for name in names)
        return matches != excludes

    def allowed(self, nics: Iterable[Nic]) -> tuple[Nic, ...]:
        """Return the NICs that NCCL_IB_HCA allows. UsageError if there is none."""
        every = tuple(nics)
        found = tuple(nic for nic in every if self.is_allowed(nic.interface))
        if every and not found:
            known = ", ".join(sorted({nic.interface for nic in every}))
            raise UsageError(
                f"{_DEVICE}={self.written[_DEVICE]} allows no RDMA device", f"the interfaces with RDMA are {known}"
            )
        return found

    def with_rails(self, nic: Nic, nics: Iterable[Nic]) -> Nic:
        """Return a NIC with the others of its host in ``nics`` that NCCL_IB_HCA names; without it, the NIC itself."""
        if _DEVICE not in self.written:
            return nic
        others = (each for each in nics if each.host == nic.host and each != nic)
        return replace(nic, rails=tuple(each for each in others if self.is_allowed(each.interface)))


def net_devices(nic: Nic, interface: str) -> str:
    """Return UCX's list of devices: those for RDMA, and the interface by which TCP connects their QPs."""
    return ",".join((*(f"{each.device}:1" for each in (nic, *nic.rails)), interface))


def nccl_settings(written: Mapping[str, object]) -> NcclSettings:
    """Return checked settings. UsageError for a name without a counterpart in UCX, and for a value out of range."""
    if len(written) > _MAX_SETTINGS:
        raise UsageError(f"{len(written)} settings", f"use at most {_MAX_SETTINGS}")
    return NcclSettings({name: _checked(name, str(value)) for name, value in written.items()})


def read_settings(words: Sequence[str]) -> NcclSettings:
    """Return the settings of words like ``NCCL_IB_TC=106``. UsageError as ``nccl_settings``, or for another form."""
    written: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--set {word[:60]} has no value", "write it as NCCL_IB_TC=106")
        if name in written:
            raise UsageError(f"--set {name} is there twice", "write it once")
        written[name] = value
    return nccl_settings(written)


def _checked(name: str, value: str) -> str:
    """Return a value in its usual form."""
    if name == _SOCKET:
        if not re.fullmatch(r"=?[\w.-]{1,15}", value, re.ASCII):
            raise UsageError(f"{name}={value[:60]} is no interface", "write one interface, for example eth1")
        return value
    if name == _DEVICE:
        if not _NAMES.fullmatch(value):
            raise UsageError(f"{name}={value[:60]} has no names", "write interfaces, for example eth1 or =eth1,eth2")
        return value
    known = _NUMBERS.get(name)
    if known is None:
        raise _refused(name)
    if not re.fullmatch(r"\d{1,5}", value, re.ASCII) or not known.low <= int(value) <= known.high:
        raise UsageError(f"{name}={value[:60]} is out of range", f"use {known.low} to {known.high}")
    return str(int(value))


def _refused(written: str) -> UsageError:
    name = show(written)[1:-1]
    for pattern, why, remedy in _REFUSED:
        if re.fullmatch(pattern, name):
            return UsageError(f"{name} has no counterpart here: {why}", remedy)
    known = (*_NUMBERS, _DEVICE, _SOCKET)
    return UsageError(f"{name} is no setting of NCCL", suggest(name, known, f"use one of {', '.join(known)}"))
