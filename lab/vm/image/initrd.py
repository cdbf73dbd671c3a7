"""A minimal initial RAM disk: busybox, the modules of the root disk in load order, and one script."""

from __future__ import annotations

import lzma
import stat
from pathlib import Path, PurePosixPath

ROOT_DISK_MODULES = ("virtio_blk", "ext4")

_TRAILER = "TRAILER!!!"


class Cpio:
    """An archive in the kernel's ``newc`` format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._entries = 0

    def folder(self, name: str) -> None:
        """Add an empty folder."""
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, *, executable: bool = False) -> None:
        """Add a file."""
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def character_device(self, name: str, major: int, minor: int) -> None:
        """Add a device node; no privilege is needed for an entry in an archive."""
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self) -> bytes:
        """Close the archive and return it."""
        self._add(_TRAILER, 0)
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._entries += 1
        encoded = name.encode() + b"\0"
        fields = (self._entries, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._parts += [_padded(header + encoded), _padded(content)]


def load_order(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """Return the paths of the ``wanted`` modules and their dependencies, each after its own dependencies.

    Names that modules.dep does not list are built into the kernel and need no loading.
    """
    needs = {path: rest.split() for path, _, rest in (line.partition(":") for line in modules_dep.splitlines())}
    path_of = {PurePosixPath(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    order: list[str] = []

    def add(path: str) -> None:
        for dependency in reversed(needs[path]):
            add(dependency)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in path_of:
            add(path_of[name])
    return order


def build_initrd(tree: Path, release: str, first_program: Path) -> bytes:
    """Return the archive for kernel ``release`` of the root file system ``tree``; ``first_program`` is /init."""
    modules = tree / "usr/lib/modules" / release
    order = load_order((modules / "modules.dep").read_text(encoding="ascii"), ROOT_DISK_MODULES)
    archive = Cpio()
    for name in ("bin", "dev", "lib", "proc", "root"):
        archive.folder(name)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", (tree / "usr/bin/busybox").read_bytes(), executable=True)
    archive.file("init", first_program.read_bytes(), executable=True)
    names = [PurePosixPath(path).name.removesuffix(".xz") for path in order]
    for path, name in zip(order, names, strict=True):
        archive.file(f"lib/{name}", _unpacked(modules / path))
    archive.file("lib/order", "".join(f"{name}\n" for name in names).encode())
    return archive.finish()


def _unpacked(module: Path) -> bytes:
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
