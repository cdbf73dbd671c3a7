"""Settings of the calling thread's namespace: sysctls, offloads, receive steering, queue lengths."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.kernel.process import libc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SIOCETHTOOL: Final = 0x8946
_STEERING: Final = "/sys/class/net/{}/queues/rx-0/rps_cpus"
_QUEUE_LENGTH: Final = "/sys/class/net/{}/tx_queue_len"
_OFFLOADS_OFF: Final = (0x15, 0x17, 0x1F, 0x22, 0x24, 0x2C)
"""ETHTOOL_SRXCSUM, STXCSUM, STSO, SUFO, SGSO and SGRO of <linux/ethtool.h>."""
_OFFLOADS: Final = {"rx checksums": 0x14, "tx checksums": 0x16, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
"""ETHTOOL_GRXCSUM, GTXCSUM, GTSO, GGSO and GGRO of <linux/ethtool.h>."""
_GFEATURES: Final = 0x3A
_SFEATURES: Final = 0x3B
_WORDS: Final = 8
"""Maximum number of feature words: Linux 7 has two."""
_UNSUPPORTED: Final = 95
_OF_INTERFACES: Final = ("net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh")
FORWARDING: Final = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}
"""The sysctl with which a namespace forwards packets, by IP version."""
_INTERFACE_FORWARDING: Final = {4: "net/ipv4/conf/{}/forwarding", 6: "net/ipv6/conf/{}/force_forwarding"}
"""That of an interface."""
_ROOM: Final = 64
"""Bytes of a value."""
_NO_SETTINGS: Final = frozenset({"stable_secret", "mtu"})
"""Files of IPv6: the first cannot be read before it is set, and the second follows the interface's MTU."""


def has_sysctl(name: str) -> bool:
    """Return whether this kernel has the sysctl (``net/ipv4/fib_multipath_hash_seed``: Linux 6.11)."""
    return Path("/proc/sys", name).exists()


def read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """Return the values of sysctls, by path."""
    return {name: Path("/proc/sys", name).read_text(encoding="ascii").strip() for name in names}


def forwarding_stopped(version: int, interface: str) -> str:
    """Return the path of the sysctl by which packets received on an interface are not forwarded; "" if they are.

    Linux decides for each interface in IPv4. In IPv6 it decides for all, except those with ``force_forwarding``
    (Linux 6.17). ``ip route get`` reports the former only.
    """
    whole, own = FORWARDING[version], _INTERFACE_FORWARDING[version].format(interface)
    if version == 4:
        return "" if _value(own) != "0" else whole if _value(whole) == "0" else own
    return whole if _value(whole) == "0" and _value(own) != "1" else ""


def _value(name: str) -> str:
    """Return the value of a sysctl; "" if the kernel or the interface does not have it."""
    try:
        return read_sysctls([name])[name]
    except FileNotFoundError:
        return ""


def open_sysctl(name: str) -> int | None:
    """Open a sysctl of the calling thread's namespace for repeated reads; None if the kernel lacks it.

    The open file shows the values of this namespace to each thread.
    """
    try:
        return os.open(Path("/proc/sys", name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def read_again(opened: int) -> str:
    """Return the current value of an open sysctl."""
    return os.pread(opened, _ROOM, 0).decode("ascii").strip()


def interface_sysctls(interface: str) -> dict[str, str]:
    """Return the values of all settings of an interface, by path: routing, ARP and ND (ip-sysctl of the kernel)."""
    folders = [Path("/proc/sys", top, interface) for top in _OF_INTERFACES]
    files = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
    return read_sysctls(str(file.relative_to("/proc/sys")) for file in files if file.name not in _NO_SETTINGS)


def write_sysctls(values: Mapping[str, str | int]) -> None:
    """Set sysctls by path (``net/ipv4/ip_forward``)."""
    for name, value in values.items():
        _write(f"/proc/sys/{name}", str(value))


def _write(path: str, text: str) -> None:
    """Write by one write(2): a large fabric has thousands of these, and a Python file object costs more than that."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def disable_offloads(interfaces: Iterable[str]) -> None:
    """Make interfaces carry frames as on a wire: no segmentation offload, no merging, no missing checksums."""
    with _ethtool() as control:
        for interface in interfaces:
            for command in _OFFLOADS_OFF:
                try:
                    _ask(control, interface, array.array("I", [command, 0]))
                except OSError as error:
                    if error.errno != _UNSUPPORTED:
                        raise


def offloads(interfaces: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the offloads that are on at each interface (ethtool(8)); an interface that is gone is left out."""
    found: dict[str, tuple[str, ...]] = {}
    with _ethtool() as control:
        for interface in interfaces:
            with contextlib.suppress(OSError):
                found[interface] = tuple(
                    name for name, command in _OFFLOADS.items() if _is_on(control, interface, command)
                )
    return found


def _is_on(control: socket.socket, interface: str, command: int) -> bool:
    """Return whether an offload is on; not if the driver has none of that kind."""
    answer = array.array("I", [command, 0])
    try:
        _ask(control, interface, answer)
    except OSError as error:
        if error.errno != _UNSUPPORTED:
            raise
        return False
    return bool(answer[1])


def features(interfaces: Iterable[str]) -> dict[str, list[int]]:
    """Return the requested features of each interface, in words of 32 bits (struct ethtool_gfeatures)."""
    found = {}
    with _ethtool() as control:
        for interface in interfaces:
            answer = array.array("I", [_GFEATURES, _WORDS, *[0] * (4 * _WORDS)])
            _ask(control, interface, answer)
            found[interface] = list(answer[3 : 2 + 4 * min(answer[1], _WORDS) : 4])
    return found


def set_features(wanted: Mapping[str, Sequence[int]]) -> None:
    """Request the features that ``features`` returned, as far as the interface allows changing them."""
    with _ethtool() as control:
        for interface, words in wanted.items():
            answer = array.array("I", [_GFEATURES, len(words), *[0] * (4 * len(words))])
            _ask(control, interface, answer)
            pairs = [part for word, free in zip(words, answer[2::4], strict=True) for part in (free, word)]
            _ask(control, interface, array.array("I", [_SFEATURES, len(words), *pairs]))


def _ethtool() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _ask(control: socket.socket, interface: str, value: array.array[int]) -> None:
    """Send SIOCETHTOOL with a command and its data; the kernel overwrites ``value`` with its answer."""
    fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0]))


def own_mounts() -> None:
    """Give the calling thread its own mounts, so that it may remount /sys. Call it in a thread created for this."""
    libc.unshare(libc.CLONE_NEWNS)
    try:
        libc.mount("none", "/", flags=libc.MS_REC | libc.MS_SLAVE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        for place in _mount_points():  # in a chroot(1) whose root is no mount point
            with contextlib.suppress(OSError):  # hidden by another mount
                libc.mount("none", place, flags=libc.MS_SLAVE)


def _mount_points() -> list[str]:
    """Return all mount points; the kernel escapes white space and backslashes in octal (proc_pid_mountinfo(5))."""
    lines = Path("/proc/thread-self/mountinfo").read_bytes().splitlines()
    return [os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1")) for line in lines]


def steer_receive(cpu_of: Mapping[str, int]) -> None:
    """Receive on one CPU per interface, so that a veth cannot reorder packets. Needs ``own_mounts``."""
    set_steering({interface: _cpu_mask(cpu) for interface, cpu in cpu_of.items()})


def steering(interfaces: Iterable[str]) -> dict[str, str]:
    """Return the CPUs that receive from each interface, as masks in the kernel's format. Needs ``own_mounts``."""
    return _read_each(_STEERING, interfaces)


def set_steering(masks: Mapping[str, str]) -> None:
    """Set the CPUs that receive from each interface. Needs ``own_mounts``."""
    _write_each(_STEERING, masks)


def queue_lengths(interfaces: Iterable[str]) -> dict[str, int]:
    """Return each interface's queue length in packets (txqueuelen of ip-link(8)). Needs ``own_mounts``."""
    return {name: int(said) for name, said in _read_each(_QUEUE_LENGTH, interfaces).items()}


def set_queue_lengths(wanted: Mapping[str, int]) -> None:
    """Set each interface's queue length, in packets. Needs ``own_mounts``."""
    _write_each(_QUEUE_LENGTH, wanted)


def _read_each(file: str, interfaces: Iterable[str]) -> dict[str, str]:
    with _own_sys():
        return {name: Path(file.format(name)).read_text(encoding="ascii").strip() for name in interfaces}


def _write_each(file: str, values: Mapping[str, str | int]) -> None:
    with _own_sys():
        for name, value in values.items():
            _write(file.format(name), str(value))


@contextlib.contextmanager
def _own_sys() -> Iterator[None]:
    """Mount /sys of the calling thread's namespace for the block."""
    libc.mount("sysfs", "/sys", "sysfs")
    try:
        yield
    finally:
        libc.unmount("/sys")


def _cpu_mask(cpu: int) -> str:
    """Return a CPU's mask in the kernel's format: hexadecimal words of 32 bits, highest first, comma-separated."""
    words = ["00000000"] * (cpu // 32)
    return ",".join([f"{1 << (cpu % 32):x}", *words])
