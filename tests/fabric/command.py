"""The rocelab command as a user runs it: a process of its own, or a fork where only what it does counts."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from lab.cli.schemas import ANSWERS, adapter
from tests import backend
from tests.fabric import resident

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = resident.ROOT
TOPOLOGIES = ROOT / "topologies"


def argv(*words: str | Path) -> list[str]:
    """The command line of ``rocelab words...``."""
    return [sys.executable, "-m", "lab", *backend.words(*map(str, words))]


def rocelab(*words: str | Path, expect: int = 0, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run it to its end and check its exit code."""
    done = resident.ended(*backend.words(*map(str, words)), timeout=backend.patience(timeout))
    assert done.returncode == expect, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done


def rocelab_json(*words: str | Path) -> Any:
    """The answer of ``rocelab words... --json``, which must fit its schema."""
    said = rocelab(*words, "--json").stdout
    adapter(
        next(name for name in (f"{words[0]} {words[1:2] and words[1]}", str(words[0])) if name in ANSWERS)
    ).validate_json(said)
    return json.loads(said)


@contextlib.contextmanager
def running(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run it in the background; what still runs at the end, because a test failed, is killed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv(*words), stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def forked(*words: str | Path) -> Iterator[resident.Begun]:
    """Run ``rocelab words...`` in the background, in a fork. Without KVM, Python takes five seconds to start."""
    with resident.Begun(*backend.words(*map(str, words))) as begun:
        yield begun


def injected(trap: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """``rocelab words...``, with what ``tests.fabric.injected`` does at ``CALL:N:MOMENT:WHAT``."""
    return resident.ended(*map(str, words), timeout=300, trap=trap)


def hosts(folder: Path, name: str, *nodes: str, rdma: bool = False) -> Path:
    """The file of a fabric of one leaf, which converges at once, and hosts; with RDMA its ports are lossless too."""
    file = folder / f"{name}.yaml"
    roles = "".join(f"  {node}: {{role: host, rdma: {str(rdma).lower()}}}\n" for node in nodes)
    links = "".join(f"  - {{ends: [{node}, leaf]}}\n" for node in nodes)
    qos = "qos: pfc-ecn\n" if rdma else ""
    file.write_text(f"name: {name}\n{qos}nodes:\n  leaf: {{role: leaf}}\n{roles}links:\n{links}")
    return file


def only_line(stderr: str) -> str:
    """The error, which is the only line but for the progress of ``up``."""
    lines = [line for line in stderr.splitlines() if not re.fullmatch(r"[\w ]+: \d+ of \d+", line)]
    assert len(lines) == 1, stderr
    assert lines[0].startswith("error: ")
    return lines[0]
