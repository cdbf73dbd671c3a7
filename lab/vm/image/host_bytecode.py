"""Bytecode of rocelab's modules for the guest, compiled on the host by the guest's own Python.

An emulated guest takes a minute to compile a checkout that it has not seen, or whose files are new. The host takes
seconds. It copies the interpreter out of the image once, and runs it with the guest's loader and libraries. Root does
not run it from a folder in which another user can replace files.

The bytecode of all modules of ``lab`` is also written into one archive (lab/vm/guest/archived_modules.py), because a
guest takes longer to find a thousand files over 9p than to run them.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.process import process
from lab.kernel.process.user_folders import is_roots
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.guest import archived_modules
from lab.vm.image.recipe import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.vm.image.arch import Arch
    from lab.vm.image.recipe import Image

BYTECODE: Final = "bytecode"
"""The folder of a guests' cache that has their bytecode, by the path of the source."""
_PACKAGE: Final = "lab"
_COMPILED: Final = (_PACKAGE, "tests")
"""Folders of a checkout with modules that run in the guest."""
_DEBUGFS: Final = ("debugfs", "e2fsprogs")
_LIBRARY: Final = re.compile(r" 100\d{3} .* ((?:ld-linux-[\w-]+|lib(?:c|m|z|expat))\.so\.\d+)[\d.]*$", re.MULTILINE)
"""A line of debugfs's ``ls -l``: a regular file that the interpreter is linked with, named up to its soname."""
_TIMEOUT: Final = 300.0
_HEADER: Final = 16
"""Bytes of bytecode's header: its version, flags, and the source's time and size (PEP 552)."""


_MARSHAL: Final = 2
"""The version of marshal's format that every Python 3 reads."""


def compile_modules(image: Image, arch: Arch, checkout: Path) -> None:
    """Compile the modules of ``checkout`` that the guests' cache lacks, or that have changed since.

    This only saves time. If it is not possible here, the guest compiles them itself.
    """
    with contextlib.suppress(LabError, OSError):
        python = interpreter(image, arch)
        folders = [folder for name in _COMPILED if (folder := checkout / name).is_dir()]
        cache = image.guest_cache / BYTECODE
        process.run([*compiler(python, cache), *folders], timeout=_TIMEOUT)
        pack_modules(cache, checkout)


def pack_modules(cache: Path, checkout: Path) -> None:
    """Write the archive of the modules that ``compiler`` has compiled into ``cache``, unless it is there already.

    A module that has changed since is left out, and a guest imports it as usual.
    """
    code = of_code(checkout / _PACKAGE)
    archive = cache / checkout.relative_to("/") / archived_modules.NAME
    with contextlib.suppress(FileNotFoundError), archive.open("rb") as old:
        if old.read(archived_modules.CODE_DIGITS).decode("ascii", "replace") == code:
            return
    modules = {}
    for source in (checkout / _PACKAGE).rglob("*.py"):
        name = source.relative_to(checkout)
        compiled = archive.parent / name.parent / f"{name.stem}.cpython-{PYTHON.replace('.', '')}.pyc"
        facts = source.stat()
        with contextlib.suppress(FileNotFoundError):
            found = compiled.read_bytes()
            if found[4:_HEADER] == struct.pack("<III", 0, int(facts.st_mtime), facts.st_size & 0xFFFFFFFF):
                modules[str(name)] = found[_HEADER:]
    if of_code(checkout / _PACKAGE) != code:  # a file was changed meanwhile
        return
    with tempfile.NamedTemporaryFile(prefix=f".{archive.name}-", dir=archive.parent, delete=False) as fresh:
        try:
            fresh.write(code.encode("ascii") + marshal.dumps(modules, _MARSHAL))
            fresh.flush()
            Path(fresh.name).chmod(0o644)  # QEMU may run as another user
            Path(fresh.name).replace(archive)
        except OSError:
            Path(fresh.name).unlink()
            raise


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
