"""Load the emulated ports of a fabric into the kernel, and open their maps and programs.

Each fabric has its own instance of the BPF object. Its maps have the fabric's size, and its qdisc has its own name in
``tc``. So a fabric with an older version of the programs can run beside a newer one. Everything is pinned in the
fabric's folder of the BPF file system; without these pins and the interfaces, nothing is left in the kernel.
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
    """Return the qdisc's name in ``tc``: ``rl_`` and the fabric's name, shortened to the kernel's 15 characters."""
    plain = "rl_" + fabric.replace("-", "_")
    if len(plain) <= _ID_LENGTH:
        return plain
    return f"rl_{plain[3 : 3 + _SHORTENED]}_{hashlib.sha256(fabric.encode()).hexdigest()[:6]}"


@dataclass(frozen=True, slots=True)
class Programs:
    """The kind of the root qdisc, and the file descriptors of the programs for the hooks."""

    kind: str
    rx: int
    tx: int
    tick: int


@dataclass(frozen=True, slots=True)
class Pin:
    """A path in the BPF file system and its inode, which differs if a new fabric has reused the path."""

    path: Path
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the pin that is at ``path`` now."""
        return cls(path, path.stat().st_ino)

    def is_there(self) -> bool:
        """Return whether the same pin still exists."""
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class PortMaps:
    """The maps of one fabric as arrays over mapped kernel memory, indexed by port id, node or NIC number.

    The memory outlives the fabric as long as it is mapped, but is no longer updated: call ``require_live`` before
    reading.
    """

    ports: NDArray[Any]
    nodes: NDArray[Any]
    events: NDArray[Any]
    event_count: NDArray[Any]
    limiters: NDArray[Any]
    """Rate limiters, ``port_layout.LIMITERS`` of each NIC; see ``limited_qps``."""
    slots: int = 0
    """Packets that each port can hold; 0 for arrays that belong to no fabric."""
    pin: Pin | None = None
    """The pin of the map ``ports``, which is removed with the fabric; None for arrays that belong to no fabric."""

    def require_live(self) -> None:
        """Raise OperationFailed if the fabric was taken down."""
        if self.pin is not None and not self.pin.is_there():
            fabric = self.pin.path.parent.parent.name
            raise OperationFailed(f"fabric {fabric} was taken down: its counters have ended", "rocelab ls")

    @property
    def config(self) -> NDArray[Any]:
        """The configuration of each port."""
        return self.ports["config"]

    @property
    def counters(self) -> NDArray[Any]:
        """The counters of each port."""
        return self.ports["counters"]


_LAYOUTS: Final = {
    "ports": port_layout.PORT,
    "nodes": port_layout.NODE,
    "events": port_layout.EVENT,
    "event_count": port_layout.EVENT_COUNT,
    "limiters": port_layout.LIMITER,
}


def check() -> None:
    """Raise EnvironmentLacks if the kernel has no BPF qdiscs, or the programs do not compile."""
    if not probe.bpf_qdisc().present:
        raise EnvironmentLacks("lossless ports (qos:) need a kernel with BPF qdiscs (CONFIG_NET_SCH_BPF)", "use --vm")
    type_layouts.compile_checked(port_layout.SOURCE)


def trial() -> probe.ProbeFinding:
    """Check whether this kernel can run the ports, by loading their programs without attaching them.

    A kernel may support BPF qdiscs, but its verifier may still reject the programs.
    """
    least = probe.bpf_qdisc()
    if not least.present:
        return least
    try:
        with _opened(ports=1, nodes=1, nics=1, slots=1) as program:
            _enter(program)
    except LabError as error:
        return probe.ProbeFinding(False, error.message)
    return least


def load(fabric: str, numbering: Numbering, owner: str, slots: int) -> None:
    """Load the programs with maps for every port, and pin them with the ``owner`` token.

    Each port can hold ``slots`` packets. EnvironmentLacks, with the kernel's reason, if the kernel rejects the
    programs. A failure before pinning leaves nothing behind. ``pins.unpin_own`` removes the pins, even if incomplete.
    """
    with _opened(numbering.size, len(numbering.nodes), max(numbering.nics, 1), slots) as program:
        program.set_qdisc_id("port", qdisc_kind(fabric))
        _enter(program)
        program.attach_struct_ops("port")
        program.pin(pins.folder_of(fabric), owner)
    (pins.folder_of(fabric) / _layout_name()).mkdir(mode=0o700)


def _opened(ports: int, nodes: int, nics: int, slots: int) -> bpf_object.Object:
    program = bpf_object.Object.open(type_layouts.compile_checked(port_layout.SOURCE))
    program.resize("ports", ports)
    program.resize("groups", ports * port_layout.CLASSES)
    program.resize("slots", ports * slots)
    program.set_constant("rl_slots", slots.to_bytes(4, sys.byteorder))
    program.resize("ack_flows", 2 * ports * port_layout.ACK_FLOWS)
    program.resize("nodes", nodes)
    program.resize("heaps", nics)
    program.resize("limiters", nics * port_layout.LIMITERS)
    return program


def _enter(program: bpf_object.Object) -> None:
    """Load the programs; EnvironmentLacks if the kernel rejects them."""
    try:
        program.load()
    except OperationFailed as error:
        raise EnvironmentLacks(f"lossless ports (qos:): {error.message}", f"use --vm; {error.remedy}") from error


def open_maps(fabric: str, *, writable: bool = False) -> PortMaps:
    """Return the maps of a loaded fabric, read-only unless ``writable``.

    OperationFailed if they do not exist, or if another version of rocelab with other record layouts built the fabric.
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
    """Return whether the fabric has emulated ports."""
    return pins.folder_of(fabric).is_dir()


def write(maps: PortMaps, numbering: Numbering, qos: Mapping[str, NodeQos], plan: Mapping[str, NodePlan]) -> None:
    """Configure every port of a fabric, before the ports are attached to interfaces."""
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
    """Yield the file descriptors of a fabric's programs, for attaching them."""
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
    """Return the name of the folder that marks a fabric's record layouts: map sizes alone may agree by chance."""
    return f"layout-{port_layout.digest(*_LAYOUTS.values())}"


def _mapped(path: Path, record: np.dtype, writable: bool) -> NDArray[Any]:
    descriptor = pins.open_pinned(path)
    try:
        return array_maps.mapped(descriptor, record, writable=writable)
    finally:
        os.close(descriptor)
