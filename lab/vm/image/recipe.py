"""The inputs of an image, and the folder of the result: the same recipe has the same folder."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import EnvironmentLacks, UsageError
from lab.kernel.process.user_folders import user_cache
from lab.shipped import PACKAGE, is_installed, shipped
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.image.arch import Arch, host_arch

SUITE = "trixie"
PYTHON = "3.13"
"""The Python version of the suite."""
LAYOUT = 3
"""Increase it when a change of the build code changes the image."""
_EXTRA = "with"
EXTRAS = ("containerlab",)
"""Additions that an image can have; each has a folder below ``with`` in the guest's folder."""


@dataclass(frozen=True)
class Recipe:
    """All inputs of an image."""

    arch: Arch
    guest: Path
    """Folder with packages.txt, the guest's own files and the scripts that install them."""
    lock: Path
    """Locked Python packages, with hashes."""
    extra: str = ""
    """One of ``EXTRAS``; "" for the usual image, which stays small."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the Debian packages, including the kernel's."""
        more = () if self.extra_folder is None else read_packages(self.extra_folder / "packages.txt")
        return (*read_packages(self.guest / "packages.txt"), f"linux-image-{self.arch.debian}", *more)

    @property
    def extra_folder(self) -> Path | None:
        """The folder with the files of the extra; None without one."""
        return self.guest / _EXTRA / self.extra if self.extra else None

    @property
    def hash(self) -> str:
        """Sixteen hex digits that change with every input of the image."""
        digest = hashlib.sha256(f"{LAYOUT} {SUITE} {PYTHON} {self.arch.debian}\n".encode())
        for path in [self.lock, *sorted(path for path in self.guest.rglob("*") if self._is_part(path))]:
            name = path.relative_to(self.guest) if path != self.lock else path.name
            mode = "x" if path.stat().st_mode & 0o100 else "-"
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {mode} {content}\n".encode())
        return digest.hexdigest()[:16]

    def _is_part(self, path: Path) -> bool:
        """Return whether a file of the guest's folder is an input of this image: files of other extras are not."""
        where = path.relative_to(self.guest).parts
        return path.is_file() and (where[0] != _EXTRA or where[1] == self.extra)


@dataclass(frozen=True)
class Image:
    """A built image: one folder of the cache."""

    folder: Path

    @property
    def hash(self) -> str:
        """The hash of its recipe."""
        return self.folder.name

    @property
    def disk(self) -> Path:
        """The root file system, raw; never written to by a running VM."""
        return self.folder / "root.ext4"

    @property
    def kernel(self) -> Path:
        """The kernel that QEMU starts."""
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        """The initial RAM disk: loads the root disk's drivers and starts the guest's init."""
        return self.folder / "initrd"

    @property
    def manifest(self) -> Path:
        """The description of the build: recipe, package versions, kernel release."""
        return self.folder / "manifest.json"

    @property
    def guest_cache(self) -> Path:
        """The folder for the guests' caches of rocelab: their own disks are temporary."""
        return self.folder / "guest-cache"

    @property
    def complete(self) -> bool:
        """Whether it is built; folders appear completely or not at all."""
        return self.manifest.is_file()


def read_packages(path: Path) -> tuple[str, ...]:
    """Return the package names of a list with one per line; ``#`` starts a comment."""
    lines = (line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


def checkout() -> Path:
    """Return the folder that contains this package, which the VM shares. EnvironmentLacks without the guest's files.

    An installed package lies beside other packages, which are not for the guest. A copy in the cache is used then.
    """
    if not shipped("scripts/guest/packages.txt").is_file():
        raise EnvironmentLacks(
            f"no scripts/guest beside {PACKAGE}",
            "install rocelab's wheel, or run it from a checkout of its repository",
        )
    return _copy_of_package() if is_installed() else PACKAGE.parent


def _copy_of_package() -> Path:
    """Return a copy of the package, made atomically; the folder is the same until a file of it changes."""
    folder = user_cache("package") / of_code()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        shutil.copytree(PACKAGE, making / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        making.chmod(0o755)
        with contextlib.suppress(OSError):  # another process has just made it
            making.rename(folder)
        shutil.rmtree(making, ignore_errors=True)
    return folder


def current_recipe(extra: str = "") -> Recipe:
    """Return this rocelab's recipe for this host, with one of ``EXTRAS`` or none. Raises UsageError for others."""
    if extra and extra not in EXTRAS:
        raise UsageError(f"no image with {extra}", f"there is {', '.join(EXTRAS)}")
    return Recipe(
        arch=host_arch(), guest=shipped("scripts/guest"), lock=shipped("scripts/requirements-dev.lock"), extra=extra
    )


def current_recipes() -> list[Recipe]:
    """Return the usual recipe, and those with each of ``EXTRAS``."""
    return [current_recipe(extra) for extra in ("", *EXTRAS)]


def cache_root() -> Path:
    """Return the folder of images: ``$XDG_CACHE_HOME/rocelab/vm``, by default below ``~/.cache``."""
    return user_cache("vm")


def image_of(recipe: Recipe) -> Image:
    """Return a recipe's image, built or not."""
    return Image(cache_root() / recipe.hash)
