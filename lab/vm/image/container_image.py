"""A container image of FRR, made only of Debian packages: for machines without access to an image registry.

``docker load`` and ``podman load`` read the file, an image of one layer (Docker image specification v1.2).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import tarfile
from typing import TYPE_CHECKING, Final

from lab.errors import CommandFailed, OperationFailed
from lab.export.containerlab import BUILT_IMAGE
from lab.kernel.process import process
from lab.vm.image import debian
from lab.vm.image.recipe import SUITE

if TYPE_CHECKING:
    from pathlib import Path

    from lab.vm.image.arch import Arch

PACKAGES: Final = ("frr", "iproute2", "iputils-ping", "tini")
START: Final = "/usr/local/bin/frr-start"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT: Final = 1800.0


def build(start: Path, arch: Arch, scratch: Path, image: Path) -> None:
    """Write the file ``image``; ``start`` is the first program of its containers.

    OperationFailed contains mmdebstrap's error if a package cannot be fetched.
    """
    layer = scratch / "layer.tar"
    argv = bootstrap(start, arch, layer, mirror=debian.host_mirror(), apt_options=debian.host_apt_options())
    try:
        process.run(debian.in_namespaces(argv, root=os.geteuid() == 0), timeout=_TIMEOUT)
    except CommandFailed as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("E:")]
        raise OperationFailed(f"the image of FRR: {[*lines, 'mmdebstrap failed'][0]}", "apt-get update") from error
    pack(layer, arch, image)
    layer.unlink()


def bootstrap(start: Path, arch: Arch, layer: Path, *, mirror: str | None, apt_options: list[str]) -> list[str]:
    """Return mmdebstrap's argument list: FRR and its dependencies into the archive ``layer``."""
    settings = ['APT::Install-Recommends "false"', 'Acquire::Languages "none"', *apt_options]
    return [
        "mmdebstrap",
        "--mode=unshare",
        "--format=tar",
        "--variant=essential",
        f"--keyring={debian.KEYRING}",
        f"--architectures={arch.debian}",
        f"--include={','.join(PACKAGES)}",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
        *(f"--aptopt={setting}" for setting in settings),
        f"--customize-hook=upload {shlex.quote(str(start))} {START}",
        f'--customize-hook=chmod 755 "$1{START}"',
        SUITE,
        str(layer),
        *([mirror] if mirror else []),
    ]


def pack(layer: Path, arch: Arch, image: Path) -> None:
    """Write the file ``image``: the layer, the configuration of its containers, and the manifest."""
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    config = {
        "architecture": arch.debian,
        "os": "linux",
        "config": {"Env": [f"PATH={_PATH}"], "Entrypoint": ["/usr/bin/tini", "--"], "Cmd": [START]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    named = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": named, "RepoTags": [BUILT_IMAGE], "Layers": [layer.name]}]
    with tarfile.open(image, "w") as archive:
        archive.add(layer, layer.name)
        for name, content_of in ((named, text), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content_of)
            archive.addfile(entry, io.BytesIO(content_of))
