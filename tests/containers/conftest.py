"""Docker, asked by its own program; nothing of a lab may be left when a module is through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pexpect
import pytest

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOKED: Final = (
    "ip -details -json address",
    "ip -json route show table all",
    "ip -6 -json route show table all",
    "tc -json qdisc show",
    "for n in $(ls /sys/class/net); do tc filter show dev $n ingress; tc filter show dev $n egress; done",
    "grep -rs . /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf /proc/sys/net/core /proc/sys/net/ipv4/fib*",
    "grep -s . /sys/class/net/*/queues/*/rps_cpus; cat /etc/hosts",
)
"""The state of a node, without times that pass."""
_BETWEEN: Final = "=========="
_PASSING: Final = ("valid_life_time", "preferred_life_time", "expires")


def docker(*words: str, expect: int = 0) -> str:
    """The output of ``docker words...``."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == expect, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def containerlab(word: str, file: Path) -> None:
    """Deploy or destroy the lab of a file, beside which are the copies that containerlab makes and leaves."""
    clean = ["--cleanup"] if word == "destroy" else []
    command: list[str | Path] = ["env", f"TMPDIR={file.parent}", "containerlab", word, "--topo", file, *clean]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


def a_shell_has_its_links(fabric: str, node: str, address: str) -> None:
    """``rocelab shell`` of a node shows its prompt, its address, and ends with the shell's exit code."""
    child: Any = pexpect.spawn(
        sys.executable, ["-m", "lab", "shell", node], timeout=PATIENCE, encoding="utf-8",
        env=os.environ | {"SHELL": "/bin/sh"},
    )  # fmt: skip
    child.expect_exact(f"{fabric}/{node}# ")
    child.sendline("ip -brief -4 address show dev eth1; exit 3")
    child.expect_exact(address)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3


def seen_in(container: str, *interfaces: str) -> list[str]:
    """The container's identity and the contents of its namespace, by its own programs and by the VM's ethtool."""
    who = docker("inspect", "--format", "{{.Id}} {{.State.Pid}} {{.State.StartedAt}}", container)
    looked = docker("exec", container, "sh", "-c", f"; echo {_BETWEEN}; ".join(_LOOKED)).split(_BETWEEN)
    asked = [["nsenter", "--target", who.split()[1], "--net", "ethtool", "-k", name] for name in interfaces]
    features = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for words in asked]
    return [who, *map(_without_times, looked), *features]


def _without_times(text: str) -> str:
    if not text.lstrip().startswith("["):
        return "\n".join(sorted(line for line in text.splitlines() if not any(word in line for word in _PASSING)))
    data = json.loads(text)
    for entry in data:
        for each in (entry, *entry.get("addr_info", [])):
            for word in _PASSING:
                each.pop(word, None)
    return json.dumps(sorted(data, key=json.dumps), sort_keys=True)


def traces() -> tuple[str, ...]:
    """Things that containerlab can leave besides containers: names, configuration of ssh, copies, networks."""
    folders = ("/etc/ssh/ssh_config.d", "/tmp/.clab", "/run/netns")  # noqa: S108 - only looked at
    found = [str(path) for folder in map(Path, folders) for path in [folder, *folder.glob("**/*")] if path.exists()]
    networks = docker("network", "ls", "--format", "{{.Name}}").split()
    return (*sorted(found), *sorted(networks), Path("/etc/hosts").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Containers and namespaces are gone when a module is through."""
    assert docker("ps", "--all", "--quiet") == ""
    yield
    assert docker("ps", "--all", "--quiet") == ""
    assert not [name for name in Path("/run/netns").glob("*") if name.name.startswith(("rl-", "clab-"))]
