"""The ``--json`` answers about the machine: errors, ``rocelab doctor`` and the VM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from lab import errors
from lab.cli.answers.base import Answer, Models
from lab.doctor import features, remedies

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.doctor.features import FeatureVerdict
    from lab.doctor.remedies import HostDistribution
    from lab.errors import Problem
else:
    _MODELS = Models()
    Problem, FeatureVerdict = _MODELS.of(errors.Problem), _MODELS.of(features.FeatureVerdict)
    HostDistribution = _MODELS.of(remedies.HostDistribution)


class ProblemAnswer(Problem):
    """An invalid entry of a file."""


class Error(Answer):
    """The error of a command."""

    kind: str
    """Class of the error, for example UsageError."""
    message: str
    remedy: str
    exit_code: int
    source: str | None = None
    """Name of the invalid file, if there is one."""
    problems: list[ProblemAnswer] | None = None
    """All problems of that file."""


class ErrorAnswer(Answer):
    """The answer of any command that failed before it printed its own."""

    error: Error


class HostAnswer(HostDistribution):
    """The machine that ``rocelab doctor`` examined."""

    time: Literal["host", "virtual"]
    """Clock of the machine: real time (host), or the VM's virtual time."""


class CapabilityAnswer(Answer):
    """A capability that ``rocelab doctor`` checks."""

    name: str
    serves: str
    """The features that need it."""
    optional: bool
    present: bool | None
    """null if it could not be tested."""
    detail: str
    remedy: str
    """Empty if nothing needs to be fixed."""


class FeatureAnswer(FeatureVerdict):
    """A feature of rocelab, of ``rocelab doctor``."""


class Doctor(Answer):
    """``rocelab doctor``."""

    host: HostAnswer
    capabilities: list[CapabilityAnswer]
    features: list[FeatureAnswer]


class VmDown(Answer):
    """``rocelab vm status`` of a VM that is down."""

    up: Literal[False]
    image: str
    """Hash of the image recipe of this checkout."""
    image_built: bool


class VmUp(Answer):
    """``rocelab vm status`` of a VM that is up."""

    up: Literal[True]
    image: str
    """Hash of the image that the VM runs."""
    image_built: bool
    """Whether the image of this checkout's recipe exists."""
    image_current: bool
    """Whether the VM runs that image."""
    time: Literal["host", "virtual"]
    """Clock of the VM: real time (host), or virtual time."""
    accel: str
    """QEMU's accelerator: kvm or tcg."""
    pid: int
    """Process id of QEMU."""
    checkpoint: str
    """The checkpoint from which the VM was restored; empty if it was booted."""
    uptime_s: float
    boot_s: float
    """Seconds until the VM was usable."""
    kernel: str
    cpus: int
    memory_mib: int
    shares: list[str]
    """Host folders that are shared with the VM at the same paths."""


class ListedVm(VmUp):
    """A running VM of ``rocelab vm ls``."""

    name: str
    """Empty for the default VM."""


class CheckpointAnswer(Answer):
    """A checkpoint of ``rocelab vm checkpoint ls``."""

    name: str
    what: str
    """Description of the state that was saved."""
    saved: float
    """Seconds since the epoch."""
    used: float
    """Time of the last restore, in seconds since the epoch."""
    bytes: int
    """Size on disk."""
    automatic: bool
    """Whether it was created automatically; the oldest such checkpoints are deleted first."""
    image: str


VmStatus: TypeAlias = VmUp | VmDown
