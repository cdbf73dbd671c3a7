"""The emulated ports of one fabric in the kernel: put on, found again, taken off.

One instance of the object serves one fabric: its maps have the fabric's size, its qdisc a name of its own in
``tc``, and a fabric built by an older version of the programs lives on beside a newer one. Everything is pinned below
the fabric's folder in the BPF file system; with that and the interfaces gone, nothing is left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from lab.dataplane import configure, port_layout
from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.bpf import array_maps, bpf_object, pins, probe, type_layouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from lab.dataplane.numbering import Numbering
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos

_ID_LENGTH: Final = 15
_SHORTENED: Final = 5


def qdisc_kind(fabric: str) -> str:
    """What ``tc`` calls the fabric's ports: ``rl_`` and its name, shortened to what the kernel takes."""
    plain = "rl_" + fabric.replace("-", "_")
    if len(plain) <= _ID_LENGTH:
        return plain
    return f"rl_{plain[3 : 3 + _SHORTENED]}_{hashlib.sha256(fabric.encode()).hexdigest()[:6]}"


@dataclass(frozen=True, slots=True)
class Programs:
    """What is put on interfaces: the kind of the root qdisc, and descriptors of the programs on the hooks."""

    kind: str
    rx: int
    tx: int
    tick: int


@dataclass(frozen=True, slots=True)
class Pin:
    """A name in the BPF file system and the inode that it had: another fabric's of the same name has another."""

    path: Path
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The pin that is at ``path`` now."""
        return cls(path, path.stat().st_ino)

    def is_there(self) -> bool:
        """Whether it still is."""
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class PortMaps:
    """The maps of one fabric as arrays, one entry for each port's id or node's number: the kernel's own memory.

    The memory outlives the fabric in whoever has it mapped, and then stands still: ``require_live`` before reading.
    """

    ports: NDArray[Any]
    nodes: NDArray[Any]
    events: NDArray[Any]
    event_count: NDArray[Any]
    slots: int = 0
    """Packets that each port has places for; 0 for arrays that are nobody's, as ``pin`` is None."""
    pin: Pin | None = None
    """What the fabric's end takes away."""

    def require_live(self) -> None:
        """OperationFailed when the fabric has been taken down since."""
        if self.pin is not None and not self.pin.is_there():
            fabric = self.pin.path.parent.parent.name
            raise OperationFailed(f"fabric {fabric} was taken down: its counters stand still", "rocelab ls")

    @property
    def config(self) -> NDArray[Any]:
        """What each port is to do."""
        return self.ports["config"]

    @property
    def counters(self) -> NDArray[Any]:
        """What each port has counted."""
        return self.ports["counters"]


_LAYOUTS: Final = {
    "ports": port_layout.PORT,
    "nodes": port_layout.NODE,
    "events": port_layout.EVENT,
    "event_count": port_layout.EVENT_COUNT,
}


def check() -> None:
    """EnvironmentLacks when this machine cannot run the ports."""
    if not probe.bpf_qdisc().present:
        raise EnvironmentLacks("lossless ports (qos:) need a kernel with BPF qdiscs (CONFIG_NET_SCH_BPF)", "use --vm")
    type_layouts.compile_checked(port_layout.SOURCE)


def trial() -> probe.ProbeFinding:
    """Whether this kernel runs the ports: it must take their own programs, too, which are attached to nothing.

    A kernel may have BPF qdiscs and a verifier that refuses a program of ours.
    """
    least = probe.bpf_qdisc()
    if not least.present:
        return least
    try:
        with _opened(ports=1, nodes=1, slots=1) as program:
            _enter(program)
    except LabError as error:
        return probe.ProbeFinding(False, error.message)
    return least


def load(fabric: str, numbering: Numbering, owner: str, slots: int) -> None:
    """Bring the programs into the kernel with maps for every port, and pin them as the ``owner``'s.

    Each port holds as many packets as it has ``slots``.

    EnvironmentLacks where the kernel cannot do it or, with its reason, will not. Nothing is left behind before the
    pins are there, and ``pins.unpin_own`` takes them away, however many they are.
    """
    with _opened(numbering.size, len(numbering.nodes), slots) as program:
        program.set_qdisc_id("port", qdisc_kind(fabric))
        _enter(program)
        program.attach_struct_ops("port")
        program.pin(pins.folder_of(fabric), owner)
    (pins.folder_of(fabric) / _layout_name()).mkdir(mode=0o700)


def _opened(ports: int, nodes: int, slots: int) -> bpf_object.Object:
    program = bpf_object.Object.open(type_layouts.compile_checked(port_layout.SOURCE))
    program.resize("ports", ports)
    program.resize("groups", ports * port_layout.CLASSES)
    program.resize("slots", ports * slots)
    program.set_constant("rl_slots", slots.to_bytes(4, sys.byteorder))
    program.resize("nodes", nodes)
    return program


def _enter(program: bpf_object.Object) -> None:
    """Bring it into the kernel; one that refuses it is not one that it was tried on."""
    try:
        program.load()
    except OperationFailed as error:
        raise EnvironmentLacks(f"lossless ports (qos:): {error.message}", f"use --vm; {error.remedy}") from error


def open_maps(fabric: str, *, writable: bool = False) -> PortMaps:
    """The maps of a fabric that has been loaded, to be read, or ``writable`` as well.

    OperationFailed when there is none, or when it was built by a rocelab that lays records out otherwise.
    """
    folder = pins.folder_of(fabric)
    if folder.is_dir() and not (folder / _layout_name()).is_dir():
        raise OperationFailed(
            f"fabric {fabric} was built by another version of rocelab", "rocelab down, then rocelab up"
        )
    maps = {name: _mapped(pins.map_path(folder, name), record, writable) for name, record in _LAYOUTS.items()}
    slots = _entries(pins.map_path(folder, "slots")) // len(maps["ports"])
    return PortMaps(**maps, slots=slots, pin=Pin.of(pins.map_path(folder, "ports")))


def has_ports(fabric: str) -> bool:
    """Whether the fabric has emulated ports."""
    return pins.folder_of(fabric).is_dir()


def write(maps: PortMaps, numbering: Numbering, qos: Mapping[str, NodeQos], plan: Mapping[str, NodePlan]) -> None:
    """Configure every port of a fabric whose interfaces do not have it yet."""
    for name, node in numbering.nodes.items():
        maps.nodes[node.number] = configure.node_record(qos[name], node)
        maps.config[node.clock] = configure.clock_record(node)
        for interface, port in qos[name].ports.items():
            mac = plan[name].interfaces[interface].mac
            maps.config[node.port(interface)] = configure.port_record(port, node, interface, mac)
            if node.host:
                maps.config[node.drain(interface)] = configure.drain_record(port, node, interface)


@contextlib.contextmanager
def programs(fabric: str) -> Iterator[Programs]:
    """Descriptors of a fabric's programs, to attach them with."""
    folder = pins.folder_of(fabric)
    with contextlib.ExitStack() as stack:
        opened = []
        for name in ("port_rx", "port_tx", "tick"):
            opened.append(pins.open_pinned(pins.program_path(folder, name)))
            stack.callback(os.close, opened[-1])
        yield Programs(qdisc_kind(fabric), *opened)


def _entries(path: Path) -> int:
    descriptor = pins.open_pinned(path)
    try:
        return array_maps.entries(descriptor)
    finally:
        os.close(descriptor)


def _layout_name() -> str:
    """What says in a fabric's folder how its records are laid out: sizes alone may agree by chance."""
    return f"layout-{port_layout.digest(*_LAYOUTS.values())}"


def _mapped(path: Path, record: np.dtype, writable: bool) -> NDArray[Any]:
    descriptor = pins.open_pinned(path)
    try:
        return array_maps.mapped(descriptor, record, writable=writable)
    finally:
        os.close(descriptor)
