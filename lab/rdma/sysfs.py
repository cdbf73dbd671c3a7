"""RDMA devices in /sys/class/infiniband.

While the RDMA subsystem shares its devices, which is its default, every network namespace sees all of them. So the
/sys of this process suffices: nothing is mounted, and no program is started.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.process import netns_teardown

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.model.addressing import Address

DEVICES: Final = netns_teardown.RDMA_DEVICES
MAKE_AGAIN: Final = "rocelab down, then up, makes it again"
"""The remedy for a missing device."""
_VERBS: Final = Path("/sys/class/infiniband_verbs")
_POLL: Final = 0.02
_HOLES: Final = 16
_ACTIVE: Final = "ACTIVE"


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table; perftest's ``-x`` option takes the index."""

    index: int
    address: Address
    netdev: str
    kind: str


def exists(device: str) -> bool:
    """Whether there is an RDMA device of this name."""
    return (DEVICES / device).exists()


def state(device: str) -> str:
    """Return the port's logical state, ``ACTIVE`` if it carries traffic (IBA vol. 1, 14.2.5.6); "" without device."""
    return _read(_port(device) / "state").partition(": ")[2]


def netdev(device: str) -> str:
    """Return the Ethernet interface below the device, by its name in its own namespace; "" without device."""
    return _read(DEVICES / device / "parent")


def packets(device: str, direction: Literal["sent", "rcvd"]) -> int:
    """Return the total RoCE packets sent or received by the device; 0 without device."""
    return int(_read(_port(device) / "hw_counters" / f"{direction}_pkts") or 0)


def new_packets(device: str) -> int:
    """Return the RoCE packets received that were new to a QP; 0 without device.

    rxe resends for ever to a peer whose acknowledgements are lost, so packets alone are no progress.
    """
    counters = _port(device) / "hw_counters"
    repeated = sum(int(_read(counters / name) or 0) for name in ("duplicate_request", "out_of_seq_request"))
    return packets(device, "rcvd") - repeated


def gids(device: str) -> tuple[Gid, ...]:
    """Return the port's GIDs in the order of their index (IBA annex A17); empty slots are left out."""
    port, found, end = _port(device), list[Gid](), _HOLES
    index = 0
    # The 1024 slots fill from the bottom, and a removed address leaves a hole: search a little past the last entry.
    while index < end and (text := _read(port / "gids" / str(index))):
        if address := int(IPv6Address(text)):
            below = _read(port / "gid_attrs" / "ndevs" / str(index))
            kind = _read(port / "gid_attrs" / "types" / str(index))
            found.append(Gid(index=index, address=_address(IPv6Address(address)), netdev=below, kind=kind))
            end = index + _HOLES
        index += 1
    return tuple(found)


def gid_index(device: str, address: Address, timeout: float = 5.0) -> int:
    """Return the index of the RoCE v2 GID of ``address``; wait until the kernel adds it.

    The kernel fills the table from a queue, shortly after the address or the device is added. OperationFailed if it
    has not within ``timeout`` seconds.
    """
    found: list[int] = []

    def look() -> bool:
        found[:] = [gid.index for gid in gids(device) if gid.address == address and gid.kind == "RoCE v2"]
        return bool(found)

    if not until(look, timeout):
        have = ", ".join(str(gid.address) for gid in gids(device)) or "none"
        raise OperationFailed(
            f"RDMA device {device} has no GID for {address} (it has {have})",
            f"give {netdev(device) or 'its interface'} that address and set it up",
        )
    return found[0]


def wait_active(device: str, timeout: float = 5.0) -> None:
    """Wait until the port is ACTIVE; OperationFailed if it is not within ``timeout`` seconds."""
    if not until(lambda: state(device) == _ACTIVE, timeout):
        raise OperationFailed(
            f"RDMA device {device} is {state(device) or 'gone'}, not {_ACTIVE}",
            f"set interface {netdev(device) or 'below it'} and the other end of its link up",
        )


def wait_gone(device: str, timeout: float = 5.0) -> None:
    """Wait until there is no device of this name; OperationFailed after ``timeout`` seconds."""
    if not until(lambda: not exists(device), timeout):
        raise OperationFailed(f"RDMA device {device} does not go away", "see the kernel's log: dmesg")


def users(device: str) -> dict[int, str]:
    """Return the processes that hold the device open: PID to name."""
    node = _verbs_node(device)
    found: dict[int, str] = {}
    if node is None:
        return found
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(link.readlink() == node for link in (process / "fd").iterdir()):
                found[int(process.name)] = _read(process / "comm")
        except OSError:  # it ended, or this user may not read it
            continue
    return found


def require() -> None:
    """Raise EnvironmentLacks unless the kernel has an RDMA subsystem."""
    if not DEVICES.is_dir():
        raise EnvironmentLacks("this kernel has no RDMA", "use the VM: rocelab --vm, see rocelab doctor")


def until(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll ``condition`` for at most ``timeout`` seconds, and return whether it holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True


def _port(device: str) -> Path:
    return DEVICES / device / "ports" / "1"


def _read(path: Path) -> str:
    """Return the file's only line; "" for an absent device, or a GID slot without attributes (EINVAL)."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _address(gid: IPv6Address) -> IPv4Address | IPv6Address:
    return gid.ipv4_mapped or gid


def _verbs_node(device: str) -> Path | None:
    for entry in _VERBS.glob("uverbs*"):
        if _read(entry / "ibdev") == device:
            return Path("/dev/infiniband") / entry.name
    return None
