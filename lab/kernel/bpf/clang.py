"""BPF objects from C sources: shipped with the package, or compiled on demand and cached.

An object is CO-RE and does not depend on the processor or the compiling machine. The package ships one object for
each source, named by a digest of the source and its headers. Only changed sources need a compiler.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.process import process
from lab.kernel.process.user_folders import kernel_cache

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGES: Final = ("clang-19", "libbpf-dev")
"""Debian and Ubuntu packages of the compiler and of BPF's C headers."""
_COMPILERS: Final = ("clang-19", *(f"clang-{version}" for version in (22, 21, 20, 18, 17)))
"""The compiler of the tests comes first. A plain ``clang`` is not used: Debian 12's version 14 is too old."""
_FLAGS: Final = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-ffile-compilation-dir=.")
_NO_LIBBPF: Final = "'bpf/bpf_helpers.h' file not found"


def find_compiler() -> Path:
    """Return the path of clang-19, or else of the newest other suitable version.

    Raises EnvironmentLacks, which names the packages, if there is none.
    """
    for name in _COMPILERS:
        if path := shutil.which(name):
            return Path(path).resolve()
    raise EnvironmentLacks("no compiler of BPF programs", _install())


def shipped(source: Path, *include: Path) -> Path:
    """Return the path of the shipped object for the present state of a C source, which need not exist.

    ``include`` as in ``compile_bpf``.
    """
    return source.with_name(f"{source.stem}-{_digest(source, include)}.o")


def compile_bpf(source: Path, *include: Path) -> Path:
    """Return the object of a C source. It is compiled unless it is shipped or in the user's cache.

    ``include`` are folders of headers in addition to the source's own.

    OperationFailed contains the compiler's output. Raises EnvironmentLacks without clang or libbpf's headers.
    """
    if (ready := shipped(source, *include)).is_file():
        return ready
    compiler = find_compiler()
    flags = _flags(source, include)
    folder = kernel_cache("bpf")
    built = folder / f"{source.stem}-{_digest(source, include, _identity(compiler), *flags)}.o"
    if not built.is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            build(source, Path(place) / built.name, *include).replace(built)
    return built


def build(source: Path, output: Path, *include: Path) -> Path:
    """Compile a C source into ``output`` and return that path. Raises the errors of ``compile_bpf``."""
    done = process.run([find_compiler(), *_flags(source, include), "-c", source, "-o", output], check=False)
    if done.returncode == 0:
        return output
    if _NO_LIBBPF in done.stderr:
        raise EnvironmentLacks("no headers of libbpf", _install())
    raise OperationFailed(f"{source} does not compile:\n{done.stderr.rstrip()}")


def _flags(source: Path, include: Iterable[Path]) -> tuple[str, ...]:
    """Return the compiler's flags. The object does not depend on the folder of the sources.

    Debian keeps <asm/types.h> in a folder of the architecture, where clang does not look for the target BPF.
    """
    folders = (word for folder in include for word in ("-I", str(folder)))
    return (
        *_FLAGS,
        f"-ffile-prefix-map={source.parent}/=",
        *folders,
        *("-idirafter", f"/usr/include/{platform.machine()}-linux-gnu"),
    )


def _identity(compiler: Path) -> str:
    """Return the compiler's path, size and mtime: starting clang for its version takes longer than all the rest."""
    state = compiler.stat()
    return repr((os.fspath(compiler), state.st_size, state.st_mtime_ns))


def _digest(source: Path, include: Iterable[Path], *more: str) -> str:
    """Return a digest of ``more``, of the source, and of every header beside it or in ``include``.

    System headers are left out: they only name what the kernel keeps stable.
    """
    digest = hashlib.sha256(repr(more).encode())
    headers = {header for folder in (source.parent, *include) for header in folder.glob("*.h")}
    for path in (source, *sorted(headers)):
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _install() -> str:
    return f"apt-get install {' '.join(PACKAGES)}, or use --vm"
