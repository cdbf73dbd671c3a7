"""BPF objects from C: shipped beside their sources, or compiled when they are needed and kept.

An object is CO-RE and the same for every processor, whoever compiles it where: so the package ships one, named for
its sources and headers, and only sources that were changed since take a compiler.
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
"""The one that the tests run with comes first. A plain ``clang`` may be Debian 12's 14, which is too old."""
_FLAGS: Final = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-ffile-compilation-dir=.")
_NO_LIBBPF: Final = "'bpf/bpf_helpers.h' file not found"


def find_compiler() -> Path:
    """clang-19 where it is installed, else the newest of the others that suit.

    EnvironmentLacks names the packages when there is none.
    """
    for name in _COMPILERS:
        if path := shutil.which(name):
            return Path(path).resolve()
    raise EnvironmentLacks("no compiler of BPF programs", _install())


def shipped(source: Path, *include: Path) -> Path:
    """Where the object of a C source, as it is now, lies or would lie; ``include`` as in ``compile_bpf``."""
    return source.with_name(f"{source.stem}-{_digest(source, include)}.o")


def compile_bpf(source: Path, *include: Path) -> Path:
    """The object of a C source, compiled unless it is shipped or the user's cache has it.

    ``include`` are folders of headers besides the source's own.

    OperationFailed shows what the compiler says. EnvironmentLacks without clang or libbpf's headers.
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
    """Compile a C source into ``output``, which is returned; fails as ``compile_bpf``."""
    done = process.run([find_compiler(), *_flags(source, include), "-c", source, "-o", output], check=False)
    if done.returncode == 0:
        return output
    if _NO_LIBBPF in done.stderr:
        raise EnvironmentLacks("no headers of libbpf", _install())
    raise OperationFailed(f"{source} does not compile:\n{done.stderr.rstrip()}")


def _flags(source: Path, include: Iterable[Path]) -> tuple[str, ...]:
    """The place of the sources is not part of the object.

    Debian keeps <asm/types.h> by architecture, where clang does not look when its target is BPF.
    """
    folders = (word for folder in include for word in ("-I", str(folder)))
    return (
        *_FLAGS,
        f"-ffile-prefix-map={source.parent}/=",
        *folders,
        *("-idirafter", f"/usr/include/{platform.machine()}-linux-gnu"),
    )


def _identity(compiler: Path) -> str:
    """Starting clang to ask its version takes longer than all the rest, so its file stands for it."""
    state = compiler.stat()
    return repr((os.fspath(compiler), state.st_size, state.st_mtime_ns))


def _digest(source: Path, include: Iterable[Path], *more: str) -> str:
    """Changes with ``more``, the source and every header beside it or in ``include``.

    The headers of the system only name what the kernel keeps stable.
    """
    digest = hashlib.sha256(repr(more).encode())
    headers = {header for folder in (source.parent, *include) for header in folder.glob("*.h")}
    for path in (source, *sorted(headers)):
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _install() -> str:
    return f"apt-get install {' '.join(PACKAGES)}, or use --vm"
