"""An API server of Kubernetes with its etcd, on loopback: the real ones, built by Go from their own sources.

There are no nodes and no controllers: what is applied is validated, defaulted and kept, and nothing runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
_PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
_SETTINGS: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True)
class Cluster:
    """An API server that answers, and a kubectl that may do everything there."""

    kubectl_words: tuple[str, ...]
    home: Path

    def kubectl(self, *words: str | Path, expect: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run ``kubectl words...`` and check its exit code."""
        done = self._ended(*words, stdin=stdin)
        assert done.returncode == expect, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def is_ready(self) -> bool:
        """Whether the API server and its etcd answer."""
        return self._ended("get", "--raw", "/readyz").returncode == 0

    def _ended(self, *words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.kubectl_words, *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env=os.environ | {"HOME": str(self.home), "KUBECONFIG": os.devnull},
        )


def built() -> Path:
    """The folder with the three programs, which are built the first time: some minutes."""
    pinned = hashlib.sha256((HERE / "go.sum").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocelab" / f"kubernetes-{pinned}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, package in _PACKAGES.items():
            if not (cache / name).exists():
                _build(package, cache / name)
    return cache


def _build(package: str, program: Path) -> None:
    go = shutil.which("go")
    assert go, "there is no Go: install golang 1.24 or newer"
    fresh = program.with_suffix(".new")
    command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(fresh), package]
    subprocess.run(command, cwd=HERE, env=os.environ | _SETTINGS, check=True)
    fresh.rename(program)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """An API server for the block, whose files are in ``folder``; both programs have ended afterwards."""
    programs, token = built(), secrets.token_hex()
    store, peers, port = free_ports(3)
    (folder / "tokens.csv").write_text(f"{token},tests,tests,system:masters\n", encoding="ascii")
    authority = folder / "apiserver.crt"
    cluster = Cluster(
        (
            str(programs / "kubectl"),
            f"--server=https://127.0.0.1:{port}",
            f"--token={token}",
            f"--certificate-authority={authority}",
        ),
        folder,
    )
    with (
        _started(_etcd(programs, folder, store, peers), folder / "etcd.log"),
        _started(_server(programs, folder, store, port), folder / "server.log") as process,
    ):
        deadline = time.monotonic() + PATIENCE
        while not (authority.exists() and cluster.is_ready()):
            said = (folder / "server.log").read_text(encoding="utf-8")[-2000:]
            assert process.poll() is None, f"the API server ended: {said}"
            assert time.monotonic() < deadline, f"the API server does not get ready: {said}"
            time.sleep(0.5)
        yield cluster


def _etcd(programs: Path, folder: Path, store: int, peers: int) -> list[str]:
    return [
        f"{programs / 'etcd'}",
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls=http://127.0.0.1:{store}",
        f"--advertise-client-urls=http://127.0.0.1:{store}",
        f"--listen-peer-urls=http://127.0.0.1:{peers}",
    ]


def _server(programs: Path, folder: Path, store: int, port: int) -> list[str]:
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    return [
        f"{programs / 'kube-apiserver'}",
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]


@contextlib.contextmanager
def _started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            yield process
        finally:
            process.terminate()


def free_ports(number: int) -> list[int]:
    """TCP ports of loopback that are free just now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
