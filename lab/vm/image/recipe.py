"""What an image is made from, and where the result is kept: same recipe, same folder."""

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
"""The Python of the suite."""
LAYOUT = 3
"""Raise it when the code that builds changes what comes out."""
_EXTRA = "with"
EXTRAS = ("containerlab",)
"""What an image can have besides: a folder of each is below ``with`` in the guest's."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what is in the image."""

    arch: Arch
    guest: Path
    """Folder with packages.txt, the guest's own files and the scripts that put them in place."""
    lock: Path
    """Locked Python packages, with hashes."""
    extra: str = ""
    """One of ``EXTRAS``, or none: the usual image stays small."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages, the kernel included."""
        more = () if self.extra_folder is None else read_packages(self.extra_folder / "packages.txt")
        return (*read_packages(self.guest / "packages.txt"), f"linux-image-{self.arch.debian}", *more)

    @property
    def extra_folder(self) -> Path | None:
        """What the extra is made from."""
        return self.guest / _EXTRA / self.extra if self.extra else None

    @property
    def hash(self) -> str:
        """Sixteen hex digits that change when anything in the image would."""
        digest = hashlib.sha256(f"{LAYOUT} {SUITE} {PYTHON} {self.arch.debian}\n".encode())
        for path in [self.lock, *sorted(path for path in self.guest.rglob("*") if self._is_part(path))]:
            name = path.relative_to(self.guest) if path != self.lock else path.name
            mode = "x" if path.stat().st_mode & 0o100 else "-"
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {mode} {content}\n".encode())
        return digest.hexdigest()[:16]

    def _is_part(self, path: Path) -> bool:
        """Whether a file of the guest's folder has a say in this image: those of other extras have none."""
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
        """What QEMU starts."""
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        """Loads the root disk's drivers and hands over."""
        return self.folder / "initrd"

    @property
    def manifest(self) -> Path:
        """What was built: recipe, package versions, kernel release."""
        return self.folder / "manifest.json"

    @property
    def guest_cache(self) -> Path:
        """What rocelab keeps in the caches of this image's guests, which have no disk that outlives them."""
        return self.folder / "guest-cache"

    @property
    def complete(self) -> bool:
        """Whether it is there; folders appear whole or not at all."""
        return self.manifest.is_file()


def read_packages(path: Path) -> tuple[str, ...]:
    """Package names of a list with one per line; ``#`` starts a comment."""
    lines = (line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


def checkout() -> Path:
    """The folder that holds this package, which the VM shares; EnvironmentLacks when nothing came with the package.

    Beside an installed package are other people's, which are not for the guest: then it is a copy in the cache.
    """
    if not shipped("scripts/guest/packages.txt").is_file():
        raise EnvironmentLacks(
            f"no scripts/guest beside {PACKAGE}",
            "install rocelab's wheel, or run it from a checkout of its repository",
        )
    return _copy_of_package() if is_installed() else PACKAGE.parent


def _copy_of_package() -> Path:
    """The package by itself, the same folder while no file of it changes; made at one stroke."""
    folder = user_cache("package") / of_code()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        shutil.copytree(PACKAGE, making / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        making.chmod(0o755)
        with contextlib.suppress(OSError):  # somebody else has just made it
            making.rename(folder)
        shutil.rmtree(making, ignore_errors=True)
    return folder


def current_recipe(extra: str = "") -> Recipe:
    """The recipe that comes with this rocelab, for this host, with one of ``EXTRAS`` or none; else UsageError."""
    if extra and extra not in EXTRAS:
        raise UsageError(f"no image with {extra}", f"there is {', '.join(EXTRAS)}")
    return Recipe(host_arch(), shipped("scripts/guest"), shipped("scripts/requirements-dev.lock"), extra)


def current_recipes() -> list[Recipe]:
    """The usual recipe, and those with each of ``EXTRAS``."""
    return [current_recipe(extra) for extra in ("", *EXTRAS)]


def cache_root() -> Path:
    """Where images are kept: ``$XDG_CACHE_HOME/rocelab/vm``, by default below ``~/.cache``."""
    return user_cache("vm")


def image_of(recipe: Recipe) -> Image:
    """The place of a recipe's image, built or not."""
    return Image(cache_root() / recipe.hash)
