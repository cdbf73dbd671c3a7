"""The additions of an image with containerlab: containerlab itself, and a container image of FRR."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed
from lab.kernel.process import process
from lab.vm.image import container_image

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.vm.image.arch import Arch

    Progress = Callable[[str], None]

PROGRAM: Final = Path("usr/local/bin/containerlab")
FRR: Final = Path("usr/local/share/rocelab/frr.tar")
_MODULE: Final = "github.com/srl-labs/containerlab"
_PACKAGE_OF_GO: Final = "golang"
_TIMEOUT: Final = 3600.0
"""Seconds. The build takes some minutes on two cores."""


def stage_extra(folder: Path, arch: Arch, stage: Path, scratch: Path, progress: Progress) -> None:
    """Put the files of the extra in ``folder`` into ``stage``. Raises OperationFailed if a part cannot be built."""
    shutil.copytree(folder / "root", stage, dirs_exist_ok=True)
    progress("containerlab: Go builds it, which takes minutes the first time")
    build_program(folder, arch, scratch, stage / PROGRAM)
    progress("containerlab: an image of FRR from Debian packages")
    (stage / FRR).parent.mkdir(parents=True)
    container_image.build(folder / "frr-start", arch, scratch, stage / FRR)


def build_program(folder: Path, arch: Arch, scratch: Path, program: Path) -> None:
    """Build containerlab from the exact sources that ``folder`` pins, with this host's Go and its settings.

    It is built in a module that requires it. ``go install`` would request a list of its versions, which some module
    mirrors lack.
    """
    go = process.find_tool("go", _PACKAGE_OF_GO)
    _require_go(go, folder / "go.mod")
    module = scratch / "containerlab"
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copy(folder / name, module)
    version = pinned(folder / "go.mod")
    flags = f"-s -w -X {_MODULE}/cmd.Version={version.removeprefix('v')}"
    settings = ("CGO_ENABLED=0", "GOOS=linux", f"GOARCH={arch.debian}", "GOFLAGS=-mod=readonly", "GOWORK=off")
    command: list[str | Path] = [go, "build", "-trimpath", "-ldflags", flags, "-o", program, _MODULE]
    try:
        process.run(["env", f"--chdir={module}", *settings, *command], timeout=_TIMEOUT)
    except CommandFailed as error:
        said = [line.strip() for line in error.stderr.splitlines() if line.strip() and "downloading" not in line]
        raise OperationFailed(
            f"building containerlab {version} failed: {[*said, 'no error printed'][0]}", "check go env GOPROXY"
        ) from error


def pinned(mod: Path) -> str:
    """Return the version of containerlab that a go.mod requires."""
    found = re.search(rf"^require {re.escape(_MODULE)} (\S+)$", mod.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None  # noqa: S101 - the file belongs to this repository
    return found[1]


def _require_go(go: str, mod: Path) -> None:
    """Raise EnvironmentLacks if Go is older than the sources require: it would download a newer Go by itself."""
    wanted = re.search(r"^go (\d+)\.(\d+)", mod.read_text(encoding="utf-8"), re.MULTILINE)
    have = re.search(r"go(\d+)\.(\d+)", process.run([go, "env", "GOVERSION"]).stdout)
    if wanted and have and tuple(map(int, have.groups())) < tuple(map(int, wanted.groups())):
        raise EnvironmentLacks(
            f"Go {'.'.join(have.groups())} is too old for containerlab",
            f"install {'.'.join(wanted.groups())} or newer",
        )
