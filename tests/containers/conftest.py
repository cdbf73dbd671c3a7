"""Docker, asked by its own program; nothing of a lab may be left when a module is through."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def docker(*words: str, expect: int = 0) -> str:
    """What ``docker words...`` prints."""
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


def await_true(look: Callable[[], bool]) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, "nothing comes any more"
        time.sleep(0.5)


def traces() -> tuple[str, ...]:
    """What containerlab can leave besides containers: names, configuration of ssh, copies, networks."""
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
