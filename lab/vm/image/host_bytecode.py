"""Bytecode of rocelab's modules for the guest, compiled on the host by the guest's own Python.

An emulated guest takes a minute to compile a checkout that it has not seen, or whose files are new. The host takes
seconds. It copies the interpreter out of the image once, and runs it with the guest's loader and libraries. Root does
not run it from a folder in which another user can replace files.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.process import process
from lab.kernel.process.user_folders import is_roots
from lab.vm.image.recipe import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.vm.image.arch import Arch
    from lab.vm.image.recipe import Image

_COMPILED: Final = ("lab", "tests")
"""Folders of a checkout with modules that run in the guest."""
_DEBUGFS: Final = ("debugfs", "e2fsprogs")
_LIBRARY: Final = re.compile(r" 100\d{3} .* ((?:ld-linux-[\w-]+|lib(?:c|m|z|expat))\.so\.\d+)[\d.]*$", re.MULTILINE)
"""A line of debugfs's ``ls -l``: a regular file that the interpreter is linked with, named up to its soname."""
_TIMEOUT: Final = 300.0


def compile_modules(image: Image, arch: Arch, checkout: Path) -> None:
    """Compile the modules of ``checkout`` that the guests' cache lacks, or that have changed since.

    This only saves time. If it is not possible here, the guest compiles them itself.
    """
    with contextlib.suppress(LabError, OSError):
        python = interpreter(image, arch)
        folders = [folder for name in _COMPILED if (folder := checkout / name).is_dir()]
        process.run([*compiler(python, image.guest_cache / "bytecode"), *folders], timeout=_TIMEOUT)


def compiler(python: Path, cache: Path) -> list[str]:
    """Return the command that compiles into ``cache``, with the interpreter in ``python``; files follow.

    The guest has its cache by the modules' paths on the host (scripts/guest/root/usr/local/lib/rocelab/shares).
    """
    return [*_program(python, f"PYTHONPYCACHEPREFIX={cache}"), "-m", "compileall", "-q"]


def _program(python: Path, *environment: str) -> list[str]:
    """Return the command that runs the interpreter in ``python``, without modules of the current folder."""
    loader = next((python / "lib").glob("ld-linux-*"), None)
    if loader is None:
        raise OperationFailed(f"{python} has no loader", "remove this folder")
    program = [str(loader), "--library-path", str(python / "lib"), str(python / "bin/python"), "-BPS"]
    return ["env", "-i", f"PYTHONHOME={python}", *environment, *program]


def extraction(listing: str, libraries: str, target: Path) -> Iterator[str]:
    """Yield debugfs's commands that copy the interpreter to ``target``.

    ``listing`` is its ``ls -l`` of the image's folder ``libraries``.
    """
    yield f"dump /usr/bin/python{PYTHON} {target}/bin/python"
    yield f"rdump /usr/lib/python{PYTHON} {target}/lib"
    for found in _LIBRARY.finditer(listing):
        name = found.group().split()[-1]
        yield f"dump {libraries}/{name} {target}/lib/{found[1]}"


def interpreter(image: Image, arch: Arch) -> Path:
    """Return the folder with the image's interpreter, copied out of the image if that was not done yet.

    LabError if it cannot be copied, does not run here, or is in a folder that is not safe.
    """
    if os.geteuid() == 0 and not is_roots(image.folder):
        raise EnvironmentLacks(f"other users can replace files in {image.folder}", "use root's own cache folder")
    folder = image.folder / "python"
    if not folder.is_dir():
        making = Path(tempfile.mkdtemp(prefix=".python-", dir=image.folder))
        try:
            _copy(image, arch, making)
            _require_complete(making)
            making.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process has just made it
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def _require_complete(python: Path) -> None:
    """Raise LabError if a copy of the interpreter cannot compile: debugfs exits with 0 also on a full disk."""
    said = process.run([*_program(python), "-c", "import compileall; print(compileall.__name__)"]).stdout
    if said != "compileall\n":
        raise OperationFailed(f"the interpreter in {python} does not run", "free some disk space")


def _copy(image: Image, arch: Arch, target: Path) -> None:
    debugfs = process.find_tool(*_DEBUGFS)
    libraries = f"/usr/lib/{arch.machine}-linux-gnu"
    listing = process.run([debugfs, "-R", f"ls -l {libraries}", image.disk]).stdout
    for name in ("bin", "lib"):
        (target / name).mkdir()
    commands = "\n".join(extraction(listing, libraries, target))
    process.run([debugfs, "-f", "-", image.disk], stdin=commands)
    for program in (target / "bin/python", *(target / "lib").glob("ld-linux-*")):
        program.chmod(0o755)
