"""The sysctls and counters of the calling thread's namespace, from /proc."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lab.audit.objects.kernel_objects import SysctlAudit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_ROOT: Final = "/proc/sys/net"
_FAMILIES: Final = ("ipv4", "ipv6")
_PREFIXES: Final = ("fib_", "ip_", "icmp_", "tcp_ecn", "tcp_congestion")
"""The sysctls of the whole namespace that decide how packets are forwarded and answered."""
_EVERYWHERE: Final = ("all", "default")
_PER_INTERFACE: Final = (
    "forwarding", "rp_filter", "arp_ignore", "arp_announce", "arp_filter", "arp_accept", "proxy_arp", "accept_local",
    "accept_redirects", "send_redirects", "ignore_routes_with_linkdown", "disable_ipv6", "accept_ra", "addr_gen_mode",
    "proxy_ndp", "disable_policy", "disable_xfrm", "route_localnet", "src_valid_mark", "accept_source_route",
    "proxy_arp_pvlan", "drop_gratuitous_arp", "drop_unicast_in_l2_multicast", "force_forwarding",
)  # fmt: skip
_PER_NEIGHBOUR_TABLE: Final = ("app_solicit", "mcast_solicit", "ucast_solicit", "retrans_time_ms", "unres_qlen_bytes")
"""How often an interface asks for a MAC, and how many packets wait for it (arp(7))."""
_SECRET: Final = frozenset({"stable_secret"})
_COUNTERS: Final = ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat")
_COUNTERS6: Final = "/proc/thread-self/net/snmp6"
_LONGEST: Final = 4096


def read_sysctls_here() -> tuple[SysctlAudit, ...]:
    """Return the sysctls of the calling thread's namespace that matter to forwarding, ARP and ECMP."""
    return tuple(SysctlAudit(name.replace("/", "."), value) for name, value in _sysctls())


def _sysctls() -> Iterator[tuple[str, str]]:
    for family in _FAMILIES:
        top = f"{_ROOT}/{family}"
        yield from _of_folder(top, [name for name in _listed(top) if name.startswith(_PREFIXES)])
        for name in _listed(f"{top}/conf"):
            folder = f"{top}/conf/{name}"
            yield from _of_folder(folder, _listed(folder) if name in _EVERYWHERE else _PER_INTERFACE)
        for name in _listed(f"{top}/neigh"):
            yield from _of_folder(f"{top}/neigh/{name}", _PER_NEIGHBOUR_TABLE)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - several hundred names a node
    except OSError:  # the kernel has no such family
        return []


def _of_folder(folder: str, names: list[str] | tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name not in _SECRET and (said := _read(f"{folder}/{name}")) is not None:
            yield f"{folder.removeprefix('/proc/sys/')}/{name}", said


def _read(path: str | Path) -> str | None:
    """Return a file's text; None if this kernel lacks it, or it is not readable. A Python file object costs more."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _LONGEST).decode(errors="replace").strip().replace("\t", " ")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_ipv6_mtus_here(interfaces: Iterable[str]) -> dict[str, int]:
    """Return the MTUs, in bytes, that IPv6 of the calling thread's namespace uses, of interfaces that have IPv6."""
    said = {each: _read(f"{_ROOT}/ipv6/conf/{each}/mtu") for each in interfaces}
    return {name: int(mtu) for name, mtu in said.items() if mtu and mtu.isdigit()}


def read_stack_counters_here() -> dict[str, int]:
    """Return the counters of the calling thread's namespace that are not 0, with the names of nstat(8)."""
    found: dict[str, int] = {}
    for path in _COUNTERS:
        lines = _whole(path).splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            prefix, *columns = names.split()
            found |= _nonzero(prefix.rstrip(":"), columns, values.split()[1:])
    for line in _whole(_COUNTERS6).splitlines():
        name, value = line.split()
        found |= _nonzero("", [name], [value])
    return found


def _whole(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - see _read
            return file.read()
    except OSError:
        return ""


def _nonzero(prefix: str, names: list[str], values: list[str]) -> dict[str, int]:
    return {f"{prefix}{name}": int(value) for name, value in zip(names, values, strict=False) if value != "0"}
