"""Knobs of the namespace that the calling thread is in: sysctls, offloads, receive steering."""

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
_GFEATURES: Final = 0x3A
_SFEATURES: Final = 0x3B
_WORDS: Final = 8
"""Of features, at most: Linux 7 has two."""
_UNSUPPORTED: Final = 95


def has_sysctl(name: str) -> bool:
    """Whether this kernel knows the sysctl (``net/ipv4/fib_multipath_hash_seed``: Linux 6.11)."""
    return Path("/proc/sys", name).exists()


def read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """What sysctls are set to, by path."""
    return {name: Path("/proc/sys", name).read_text(encoding="ascii").strip() for name in names}


def write_sysctls(values: Mapping[str, str | int]) -> None:
    """Set sysctls by path (``net/ipv4/ip_forward``)."""
    for name, value in values.items():
        _write(f"/proc/sys/{name}", str(value))


def _write(path: str, text: str) -> None:
    """One write(2): a big fabric has thousands of these, and a Python file object costs more than the kernel does."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def disable_offloads(interfaces: Iterable[str]) -> None:
    """Make every interface carry the frames that a wire would: no segmentation, merging or missing checksums."""
    with _ethtool() as control:
        for interface in interfaces:
            for command in _OFFLOADS_OFF:
                try:
                    _ask(control, interface, array.array("I", [command, 0]))
                except OSError as error:
                    if error.errno != _UNSUPPORTED:
                        raise


def features(interfaces: Iterable[str]) -> dict[str, list[int]]:
    """What of each interface's features is asked for, words of 32 bits (struct ethtool_gfeatures)."""
    found = {}
    with _ethtool() as control:
        for interface in interfaces:
            answer = array.array("I", [_GFEATURES, _WORDS, *[0] * (4 * _WORDS)])
            _ask(control, interface, answer)
            found[interface] = list(answer[3 : 2 + 4 * min(answer[1], _WORDS) : 4])
    return found


def set_features(wanted: Mapping[str, Sequence[int]]) -> None:
    """Ask for the features that ``features`` has told, of those that the interface lets be asked for."""
    with _ethtool() as control:
        for interface, words in wanted.items():
            answer = array.array("I", [_GFEATURES, len(words), *[0] * (4 * len(words))])
            _ask(control, interface, answer)
            pairs = [part for word, free in zip(words, answer[2::4], strict=True) for part in (free, word)]
            _ask(control, interface, array.array("I", [_SFEATURES, len(words), *pairs]))


def _ethtool() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _ask(control: socket.socket, interface: str, value: array.array[int]) -> None:
    """SIOCETHTOOL with a command and its data, which the kernel's answer takes the place of."""
    fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0]))


def own_mounts() -> None:
    """Give the calling thread, one that was made for this, mounts of its own, so that it may remount /sys."""
    libc.unshare(libc.CLONE_NEWNS)
    try:
        libc.mount("none", "/", flags=libc.MS_REC | libc.MS_SLAVE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        for place in _mount_points():  # of chroot(1), in a folder where nothing is mounted
            with contextlib.suppress(OSError):  # it is hidden by another one
                libc.mount("none", place, flags=libc.MS_SLAVE)


def _mount_points() -> list[str]:
    """Where something is mounted; spaces and the like are escaped in octal (proc_pid_mountinfo(5))."""
    lines = Path("/proc/thread-self/mountinfo").read_bytes().splitlines()
    return [os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1")) for line in lines]


def steer_receive(cpu_of: Mapping[str, int]) -> None:
    """Let one CPU alone receive from each interface, so that a veth cannot reorder; needs ``own_mounts``."""
    set_steering({interface: _cpu_mask(cpu) for interface, cpu in cpu_of.items()})


def steering(interfaces: Iterable[str]) -> dict[str, str]:
    """The CPUs that receive from each interface, as the kernel prints sets; needs ``own_mounts``."""
    return _read_each(_STEERING, interfaces)


def set_steering(masks: Mapping[str, str]) -> None:
    """Let these CPUs receive from each interface; needs ``own_mounts``."""
    _write_each(_STEERING, masks)


def queue_lengths(interfaces: Iterable[str]) -> dict[str, int]:
    """Packets that each interface lets its qdisc hold (txqueuelen of ip-link(8)); needs ``own_mounts``."""
    return {name: int(said) for name, said in _read_each(_QUEUE_LENGTH, interfaces).items()}


def set_queue_lengths(wanted: Mapping[str, int]) -> None:
    """Let the qdisc of each interface hold so many packets; needs ``own_mounts``."""
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
    """/sys of the namespace that the thread is in."""
    libc.mount("sysfs", "/sys", "sysfs")
    try:
        yield
    finally:
        libc.unmount("/sys")


def _cpu_mask(cpu: int) -> str:
    """A CPU as the kernel prints sets: hexadecimal words of 32 bits, the highest first, parted by commas."""
    words = ["00000000"] * (cpu // 32)
    return ",".join([f"{1 << (cpu % 32):x}", *words])
