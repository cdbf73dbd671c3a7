"""Build the image atomically: Debian packages and locked Python packages in one root file system."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import locks, process, stream_output
from lab.units import format_size
from lab.vm.host.vm_state import all_running
from lab.vm.image import debian
from lab.vm.image.extras import stage_extra
from lab.vm.image.initrd import build_initrd
from lab.vm.image.recipe import Image, Recipe, cache_root, current_recipe, image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str], None]

DISK_NEEDED = 4 * 10**9
DISK_SIZE = "6G"
"""The disk's size in the guest. The file is sparse, and grows only in the running VM's own overlay."""

_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "unshare": "util-linux",
}
_USER_TOOLS = {"newuidmap": "uidmap"}
_BUILDING = "building-"
_OTHERS_KEPT = 1


def build(progress: Progress, *, extra: str = "", force: bool = False) -> Image:
    """Return the image of this checkout's recipe, built if it is not in the cache; older images are removed.

    ``extra`` is one of ``recipe.EXTRAS``, or none. ``progress`` gets one line per step. EnvironmentLacks names a
    missing tool or too little disk space. OperationFailed names the step that failed and the log. After an error or
    an interrupt nothing half-built stays.
    """
    recipe = current_recipe(extra)
    image = image_of(recipe)
    if image.complete and not force:
        return image
    if any(running.image == image for running in all_running().values()):
        raise UsageError("the VM runs from the image that is to be replaced", "rocelab vm down")
    _require_tools()
    with _locked_cache(progress):
        if image.complete and not force:
            return image
        _clear_leftovers()
        _require_disk(cache_root())
        with _scratch() as scratch:
            _Build(recipe, scratch, progress).run()
            if image.folder.exists():
                _remove_tree(image.folder)
            (scratch / "image").rename(image.folder)
        prune(keep=image)
    return image


def prune(keep: Image) -> list[str]:
    """Remove the images of other recipes and return their hashes.

    The newest of them stays, so that two checkouts do not rebuild in turn. An image that a VM runs from stays, too,
    wherever that VM's state folder is.
    """
    others = [Image(folder) for folder in cache_root().iterdir() if folder != keep.folder and Image(folder).complete]
    removed = []
    for image in sorted(others, key=lambda image: image.manifest.stat().st_mtime)[:-_OTHERS_KEPT]:
        with locks.held_if_free(image.manifest) as free:
            if free:
                shutil.rmtree(image.folder)
                removed.append(image.hash)
    return removed


@dataclass(frozen=True)
class _Build:
    """One build in the folder ``scratch``; the result is ``scratch/image``."""

    recipe: Recipe
    scratch: Path
    progress: Progress

    @property
    def _tree(self) -> Path:
        return self.scratch / "tree"

    @property
    def _stage(self) -> Path:
        return self.scratch / "stage"

    @property
    def _image(self) -> Image:
        return Image(self.scratch / "image")

    def run(self) -> None:
        began = time.monotonic()
        self._image.folder.mkdir()
        self._image.guest_cache.mkdir()
        self.progress("Python packages: locked versions for the guest")
        self._stage_files()
        self._bootstrap()
        release = self._kernel_release()
        self.progress(f"kernel {release}: initrd")
        self._take_kernel(release)
        self.progress("disk image")
        self._make_disk()
        self._write_manifest(release, time.monotonic() - began)

    def _stage_files(self) -> None:
        """Lay out the files that are added to Debian's."""
        shutil.copytree(self.recipe.guest / "root", self._stage)
        own = self._stage / "usr/local/lib/rocelab"
        shutil.copy(self.recipe.guest / "provision", own)
        packages = self._stage / debian.DIST_PACKAGES
        lock = self.scratch / "requirements.lock"
        lock.write_text(
            debian.lock_for_guest(self.recipe.lock.read_text("utf-8"), self.recipe.arch), encoding="utf-8"
        )
        with _step("installing the locked Python packages"):
            process.run(debian.pip_install(self.recipe.arch, lock, packages, sys.executable), timeout=600)
        if self.recipe.extra_folder is not None:
            stage_extra(self.recipe.extra_folder, self.recipe.arch, self._stage, self.scratch, self.progress)
        # Their scripts have the path of this host's Python; the guest has its own.
        shutil.rmtree(packages / "bin", ignore_errors=True)
        (packages / "rocelab.pth").write_text("/rocelab\n", encoding="ascii")

    def _bootstrap(self) -> None:
        log = cache_root() / "build.log"
        argv = debian.bootstrap(
            self.recipe, self._stage, self._tree, mirror=debian.host_mirror(), apt_options=debian.host_apt_options()
        )
        with log.open("w", encoding="utf-8") as out:

            def on_line(line: str) -> None:
                out.write(f"{line}\n")
                if line.startswith("I: ") and line.endswith("..."):
                    self.progress(f"Debian packages: {line[3:-3]}")

            with _step("mmdebstrap", f"see {log}"):
                stream_output.stream(_as_root(argv), on_line, grace=0)  # all processes end with its PID namespace

    def _kernel_release(self) -> str:
        (modules,) = (self._tree / "usr/lib/modules").iterdir()
        return modules.name

    def _take_kernel(self, release: str) -> None:
        shutil.copyfile(self._tree / "boot/kernel", self._image.kernel)
        self._image.initrd.write_bytes(build_initrd(self._tree, release, self.recipe.guest / "initrd-init"))

    def _make_disk(self) -> None:
        options = ("-q", "-t", "ext4", "-L", "rocelab", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=1")
        with _step("making the disk image"):
            process.run(_as_root(["mke2fs", *options, "-d", self._tree, self._image.disk, DISK_SIZE]), timeout=300)

    def _write_manifest(self, release: str, took: float) -> None:
        query = ["dpkg-query", f"--admindir={self._tree / 'var/lib/dpkg'}", "-W", "-f", "${Package} ${Version}\n"]
        versions = dict(line.split() for line in process.run(query).stdout.splitlines())
        manifest = {
            "recipe": self.recipe.hash,
            "arch": self.recipe.arch.debian,
            "kernel": release,
            "build_seconds": round(took, 1),
            "packages": {name: versions[name] for name in self.recipe.packages if name in versions},
        }
        self._image.manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _step(name: str, remedy: str = "") -> Iterator[None]:
    """Report a failed program by the name of the step: its argument list is too long to read."""
    try:
        yield
    except CommandFailed as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("E:", "ERROR:"))]
        raise OperationFailed(f"{name} failed: {[*errors, *lines, 'no error printed'][0]}", remedy) from error


def _as_root(argv: process.Argv) -> list[str | Path]:
    return debian.in_namespaces(argv, root=os.geteuid() == 0)


def _require_tools() -> None:
    tools = _TOOLS if os.geteuid() == 0 else _TOOLS | _USER_TOOLS
    for name, package in tools.items():
        process.find_tool(name, package)
    debian.require_keyring()


def _require_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < DISK_NEEDED:
        raise EnvironmentLacks(
            f"{folder} has {format_size(free)} free and building the VM needs {format_size(DISK_NEEDED)}",
            "free some, or set XDG_CACHE_HOME to a bigger disk",
        )


@contextlib.contextmanager
def _locked_cache(progress: Progress) -> Iterator[None]:
    """Allow one build at a time. A second one waits, and then usually finds the image complete."""
    cache_root().mkdir(parents=True, exist_ok=True)
    path = cache_root() / "lock"
    with locks.held(path, make=True, waiting=lambda holder: progress(f"waiting for {holder}")):
        yield


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cache_root()))
    try:
        yield folder
    finally:
        _remove_tree(folder)


def _clear_leftovers() -> None:
    """Remove the files of a killed build; the lock ensures that no other build runs."""
    for folder in cache_root().glob(f"{_BUILDING}*"):
        _remove_tree(folder)


def _remove_tree(folder: Path) -> None:
    """Remove a folder whose files may belong to the users of a user namespace."""
    process.run(_as_root(["rm", "-rf", "--one-file-system", folder]), timeout=300)
