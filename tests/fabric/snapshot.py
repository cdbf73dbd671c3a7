"""Everything on the host that a fabric could have changed, to be compared before and after."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from tests.fabric import resident

_VOLATILE = ("nf_conntrack_count", "/neigh/", "tcp_fastopen_key", "stable_secret")
_WATCHED = (
    "/etc/netns",
    "/etc/.netns-of-rocelab",
    "/run/netns",
    "/run/rocelab/fabrics",
    "/run/rocelab/made-netns",
    "/run/rocelab/mounted-netns",
    "/run/frr",
    "/var/run/frr",
    "/var/tmp/frr",  # noqa: S108 - only looked at
    "/etc/frr",
    "/sys/fs/bpf",
    "/sys/fs/cgroup/rocelab",
    "/sys/fs/cgroup/unified/rocelab",
)
_PROGRAMS = {"vtysh", "ip", "tc", "rdma", *(path.name[:15] for path in Path("/usr/lib/frr").glob("*"))}
"""The programs of a fabric's namespaces besides perftest, by the 15 letters that the kernel keeps of a name."""
_PINNED = Path("/sys/fs/bpf/rocelab")
_SOURCES = sorted(Path(__file__).parents[2].glob("lab/*/bpf/*.[ch]"))
_NAMED = re.compile(
    r"""^RL_ARRAY\((\w+),                                         # an array map
    |   ^\}\ (\w+)\ SEC\("\.maps"\)                             # another map
    |   ^SEC\("[^"]+"\)\n(?:\w+[ ]\*?)+(?:BPF_PROG\()?(\w+)     # a program
    """,
    re.MULTILINE | re.VERBOSE,
)
_OF_FABRICS = tuple(
    {path.name.removesuffix(".bpf.c")[:7] for path in _SOURCES if path.name.endswith(".bpf.c")}
    | {name[:15] for path in _SOURCES for found in _NAMED.findall(path.read_text()) for name in found if name}
)
"""Prefixes of the names of a fabric's programs and maps, and of those of the trial before it.

The kernel keeps 15 letters of a name, and libbpf 7 of an object's.
"""
TC_FILTERS = (
    r"ip -o link | sed -n 's/^[0-9]*: \([^:@]*\).*/filter show dev \1 ingress\nfilter show dev \1 egress/p' "
    "| tc -force -batch - 2>/dev/null"
)
"""A shell's line that shows the filters of all of a node's interfaces, where there can be some. One tc for all: of an
interface that is not there it has modprobe(8) asked for two modules, each time."""
_SETTLING = 30.0
"""Seconds in which the kernel frees objects without references."""


@dataclass(frozen=True)
class Snapshot:
    """One look at the root namespace, the mounts, the processes and the files."""

    links: tuple[str, ...]
    addresses: tuple[str, ...]
    routes: tuple[str, ...]
    rules: tuple[str, ...]
    qdiscs: tuple[str, ...]
    sysctls: tuple[str, ...]
    mounts: tuple[str, ...]
    processes: tuple[str, ...]
    files: tuple[str, ...]
    rdma: tuple[str, ...]
    firewall: tuple[str, ...]
    bpf: tuple[str, ...]

    def differences(self, later: Snapshot) -> list[str]:
        """Missing (-) and added (+) things, one line each."""
        lines = []
        for field in fields(self):
            before, after = Counter(getattr(self, field.name)), Counter(getattr(later, field.name))
            lines += [f"{field.name} - {line}" for line in sorted((before - after).elements())]
            lines += [f"{field.name} + {line}" for line in sorted((after - before).elements())]
        return lines


def take() -> Snapshot:
    """The host as it is now, and our resident, which is there from the first command to the last, on it."""
    resident.address()
    return Snapshot(
        links=_said("ip", "-o", "link"),
        addresses=_without_lifetimes(_said("ip", "-o", "addr")),
        routes=_said("ip", "route", "show", "table", "all") + _said("ip", "-6", "route", "show", "table", "all"),
        rules=_said("ip", "rule") + _said("ip", "-6", "rule"),
        qdiscs=_said("tc", "qdisc"),
        sysctls=tuple(_sysctls()),
        mounts=tuple(line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        processes=tuple(_processes()),
        files=tuple(_files()),
        rdma=_said("rdma", "link") if Path("/sys/class/infiniband").exists() else (),
        firewall=_said("nft", "list", "ruleset") if shutil.which("nft") else (),
        bpf=_bpf(),
    )


def _said(*argv: str) -> tuple[str, ...]:
    return tuple(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


def _bpf() -> tuple[str, ...]:
    """Objects in the kernel by type and name, pinned or not, where fabrics can have lossless ports.

    It outlives the fabric: the kernel takes namespaces down behind everybody's back, and frees what their interfaces
    had. So where there is no fabric, that is waited for. Programs of cgroups are left out: systemd's and Docker's
    come and go with their units and containers, some time after these, and rocelab loads none.
    """
    if not Path("/sys/class/infiniband").exists() or not shutil.which("bpftool"):
        return ()
    found = _bpf_objects()
    deadline = time.monotonic() + _SETTLING
    while any(map(_is_ours, found)) and not _is_pinned() and time.monotonic() < deadline:
        found = _bpf_objects()
    counted = [entry for entry in found if not entry["type"].startswith("cgroup_")]
    return tuple(f"{entry['what']} {entry['type']} {entry.get('name', '')}" for entry in counted)


def _is_pinned() -> bool:
    return _PINNED.is_dir() and any(_PINNED.iterdir())


def _bpf_objects() -> list[dict[str, str]]:
    said = {what: "".join(_said("bpftool", "-j", what, "show")) or "[]" for what in ("prog", "map", "link")}
    return [{**entry, "what": what} for what, text in said.items() for entry in json.loads(text)]


def _is_ours(entry: dict[str, str]) -> bool:
    return entry["type"] == "struct_ops" or entry.get("name", "").startswith(_OF_FABRICS)


def _without_lifetimes(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line.split("\\")[0] for line in lines)


def _sysctls() -> list[str]:
    found = []
    for folder, _, names in os.walk("/proc/sys/net"):
        for name in names:
            path = Path(folder, name)
            if not any(part in str(path) for part in _VOLATILE):
                try:
                    found.append(f"{path} = {path.read_text().strip()}")
                except OSError:
                    continue
    return found


def _processes() -> list[str]:
    """All processes that the tests' commands started, and programs of a fabric's kinds in all other namespaces.

    Other people's come and go, ``bgpd --version`` too. Who is ending, or has and was not waited for, has neither
    environment nor namespace.
    """
    home = Path("/proc/self/ns/net").stat().st_ino
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name = (entry / "comm").read_text().rstrip("\n")
                ours = resident.MARK.encode() in (entry / "environ").read_bytes().split(b"\0")
                of_kind = name in _PROGRAMS or name.startswith("ib_")
                if ours or (of_kind and (entry / "ns/net").stat().st_ino != home):
                    found.append(f"{name} {entry.name}")
    return found


def _files() -> list[str]:
    found = []
    for root in _WATCHED:
        for folder, folders, names in os.walk(root):
            found += [str(Path(folder, name)) for name in [*folders, *names]]
        if Path(root).exists():
            found.append(root)
    return found
