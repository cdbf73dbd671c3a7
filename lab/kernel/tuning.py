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

from lab.kernel import libc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SIOCETHTOOL: Final = 0x8946
_OFFLOADS_OFF: Final = (0x15, 0x17, 0x1F, 0x22, 0x24, 0x2C)
"""ETHTOOL_SRXCSUM, STXCSUM, STSO, SUFO, SGSO and SGRO of <linux/ethtool.h>."""
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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface in interfaces:
            for command in _OFFLOADS_OFF:
                value = array.array("I", [command, 0])
                request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
                try:
                    fcntl.ioctl(control, _SIOCETHTOOL, request)
                except OSError as error:
                    if error.errno != _UNSUPPORTED:
                        raise


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
    libc.mount("sysfs", "/sys", "sysfs")
    try:
        for interface, cpu in cpu_of.items():
            _write(f"/sys/class/net/{interface}/queues/rx-0/rps_cpus", _cpu_mask(cpu))
    finally:
        libc.unmount("/sys")


def _cpu_mask(cpu: int) -> str:
    """A CPU as the kernel prints sets: hexadecimal words of 32 bits, the highest first, parted by commas."""
    words = ["00000000"] * (cpu // 32)
    return ",".join([f"{1 << (cpu % 32):x}", *words])
