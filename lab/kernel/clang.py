"""BPF objects from C, compiled when they are needed and kept: the same sources and compiler, the same object."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel import process
from lab.kernel.cache import user_cache

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGES: Final = ("clang-19", "libbpf-dev")
"""Debian and Ubuntu packages of the compiler and of BPF's C headers."""
_COMPILERS: Final = ("clang-19", *(f"clang-{version}" for version in (22, 21, 20, 18, 17)))
"""The one that the tests run with comes first. A plain ``clang`` may be Debian 12's 14, which is too old."""
_TARGETS: Final = {"x86_64": "x86", "aarch64": "arm64"}
"""Processors, and what <bpf/bpf_tracing.h> calls them."""
_FLAGS: Final = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror")
_NO_LIBBPF: Final = "'bpf/bpf_helpers.h' file not found"


def find_compiler() -> Path:
    """The newest clang that suits; EnvironmentLacks names the packages when there is none."""
    for name in _COMPILERS:
        if path := shutil.which(name):
            return Path(path).resolve()
    raise EnvironmentLacks("no compiler of BPF programs", _install())


def compile_bpf(source: Path, *include: Path) -> Path:
    """The object of a C source, compiled unless the user's cache has it; ``include`` are folders of its headers.

    OperationFailed shows what the compiler says. EnvironmentLacks without clang or libbpf's headers.
    """
    compiler = find_compiler()
    flags = _flags(include)
    folder = user_cache("bpf")
    built = folder / f"{source.stem}-{_digest(compiler, flags, source, include)}.o"
    if not built.is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            _compile([str(compiler), *flags], source, Path(place) / built.name).replace(built)
    return built


def _compile(command: list[str], source: Path, output: Path) -> Path:
    done = process.run([*command, "-c", source, "-o", output], check=False)
    if done.returncode == 0:
        return output
    if _NO_LIBBPF in done.stderr:
        raise EnvironmentLacks("no headers of libbpf", _install())
    raise OperationFailed(f"{source} does not compile:\n{done.stderr.rstrip()}")


def _flags(include: Iterable[Path]) -> tuple[str, ...]:
    """Debian keeps <asm/types.h> by architecture, where clang does not look when its target is BPF."""
    machine = platform.machine()
    if machine not in _TARGETS:
        raise EnvironmentLacks(f"BPF programs are not compiled for {machine}", "use an x86-64 or ARM64 machine")
    folders = (word for folder in include for word in ("-I", str(folder)))
    return (
        *_FLAGS,
        f"-D__TARGET_ARCH_{_TARGETS[machine]}",
        *folders,
        *("-idirafter", f"/usr/include/{machine}-linux-gnu"),
    )


def _digest(compiler: Path, flags: Iterable[str], source: Path, include: Iterable[Path]) -> str:
    """Changes with the compiler, the flags, the source and every header beside it or in ``include``.

    Starting clang to ask its version takes longer than all the rest, so its file stands for it. The headers of the
    system only name what the kernel keeps stable.
    """
    state = compiler.stat()
    digest = hashlib.sha256(repr((os.fspath(compiler), state.st_size, state.st_mtime_ns, tuple(flags))).encode())
    headers = {header for folder in (source.parent, *include) for header in folder.glob("*.h")}
    for path in (source, *sorted(headers)):
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _install() -> str:
    return f"apt-get install {' '.join(PACKAGES)}, or use --vm"
