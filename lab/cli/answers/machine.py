"""What is answered about the machine: errors, ``rocelab doctor``, the VM."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lab.cli.answers.base import Answer


class ProblemAnswer(Answer):
    """A broken rule in a file."""

    path: str
    """Where in the file, as links[3].rate."""
    message: str
    remedy: str
    line: int
    """0 where it is not known."""


class Error(Answer):
    """Why there is no answer."""

    kind: str
    """Class of the error, as UsageError."""
    message: str
    remedy: str
    exit_code: int
    source: str | None = None
    """Of a file with problems: its name."""
    problems: list[ProblemAnswer] | None = None
    """Of such a file: all of them."""


class ErrorAnswer(Answer):
    """Any command's that failed before it answered."""

    error: Error


class HostAnswer(Answer):
    """The machine that ``rocelab doctor`` looked at."""

    distribution: str
    """ID of os-release(5); empty where it is unknown."""
    machine: str
    """Processor as the kernel calls it: x86_64."""
    release: str
    """The kernel's."""
    root: bool
    in_vm: bool
    kvm: bool
    """The device of KVM is there; it may still not run guests."""
    time: Literal["host", "virtual"]
    """Whose time it lives in."""


class CapabilityAnswer(Answer):
    """Something that the machine can do or cannot, of ``rocelab doctor``."""

    name: str
    serves: str
    """What needs it."""
    optional: bool
    present: bool | None
    """None where it could not be tried."""
    detail: str
    remedy: str
    """Empty where nothing is to be mended."""


class FeatureAnswer(Answer):
    """Something that users do, of ``rocelab doctor``."""

    feature: str
    place: Literal["here", "in the VM", "no"]
    """Where it works."""
    lacks: list[str]
    """Names of the capabilities that it takes and this machine has not got."""
    remedy: str


class Doctor(Answer):
    """``rocelab doctor``."""

    host: HostAnswer
    capabilities: list[CapabilityAnswer]
    features: list[FeatureAnswer]


class VmDown(Answer):
    """``rocelab vm status`` of a VM that is down."""

    up: Literal[False]
    image: str
    """Hash of the recipe of this checkout, by which the image is kept."""
    image_built: bool


class VmUp(Answer):
    """``rocelab vm status`` of a VM that is up."""

    up: Literal[True]
    image: str
    """Hash of the image that it runs."""
    image_built: bool
    """The image of this checkout's recipe is there."""
    image_current: bool
    """It is the one that the VM runs."""
    time: Literal["host", "virtual"]
    """Whose time it lives in."""
    accel: str
    """QEMU's accelerator: kvm or tcg."""
    pid: int
    """QEMU's."""
    checkpoint: str
    """What it continued from; empty when it was booted."""
    uptime_s: float
    boot_s: float
    """Until it could be used."""
    kernel: str
    cpus: int
    memory_mib: int
    shares: list[str]
    """Folders of the host that it sees, at the same paths."""


class ListedVm(VmUp):
    """A VM of ``rocelab vm ls``: those that are up."""

    name: str
    """Empty for the one without a name."""


class CheckpointAnswer(Answer):
    """A checkpoint of ``rocelab vm checkpoint ls``."""

    name: str
    what: str
    """In words: what the guest had done."""
    saved: float
    """Seconds since the epoch."""
    used: float
    """When a VM last continued from it: seconds since the epoch."""
    bytes: int
    """On the disk."""
    automatic: bool
    """Made without being asked for; the oldest goes when there are too many."""
    image: str


VmStatus: TypeAlias = VmUp | VmDown
