"""The same recipe gives the same image; anything that would change the image changes its hash."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import EnvironmentLacks, UsageError
from lab.vm.host import boot
from lab.vm.image import extras, image_build
from lab.vm.image import recipe as recipes
from lab.vm.image.arch import ARCHES, host_arch
from lab.vm.image.recipe import Image, Recipe
from tests.patience import PATIENCE


def test_packages_are_the_list_without_comments_and_the_kernel_of_the_architecture(recipe: Recipe) -> None:
    assert recipe.packages == ("frr", "iproute2", "linux-image-amd64")
    assert replace(recipe, arch=ARCHES["aarch64"]).packages[-1] == "linux-image-arm64"


def test_hash_is_stable(recipe: Recipe) -> None:
    assert recipe.hash == replace(recipe).hash
    assert len(recipe.hash) == 16
    assert int(recipe.hash, 16) >= 0


CHANGES: dict[str, Callable[[Recipe], object]] = {
    "a package": lambda recipe: (recipe.guest / "packages.txt").write_text("frr\n"),
    "a guest file": lambda recipe: (recipe.guest / "root/etc/motd").write_text("bye\n"),
    "a new guest file": lambda recipe: (recipe.guest / "root/etc/issue").touch(),
    "a guest file's name": lambda recipe: (recipe.guest / "root/etc/motd").rename(recipe.guest / "root/etc/notd"),
    "an executable bit": lambda recipe: (recipe.guest / "root/etc/motd").chmod(0o755),
    "the lock": lambda recipe: recipe.lock.write_text("typer==0.29.3\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_hash_follows(recipe: Recipe, change: str) -> None:
    before = recipe.hash
    CHANGES[change](recipe)
    assert recipe.hash != before


def test_hash_follows_the_architecture(recipe: Recipe) -> None:
    assert replace(recipe, arch=ARCHES["aarch64"]).hash != recipe.hash


def test_the_shipped_recipe_is_readable() -> None:
    current = recipes.current_recipe()
    assert {"frr", "perftest", "busybox-static"} <= set(current.packages)
    assert current.lock.is_file()


def test_cache_follows_the_xdg_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/big/cache")
    assert recipes.cache_root() == Path("/big/cache/rocelab/vm")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert recipes.cache_root() == Path("/home/ann/.cache/rocelab/vm")


def test_an_image_without_manifest_is_not_complete(tmp_path: Path) -> None:
    image = Image(tmp_path)
    image.disk.touch()
    assert not image.complete
    image.manifest.touch()
    assert image.complete


@pytest.fixture
def extended(recipe: Recipe) -> Recipe:
    """The recipe with an extra on paper."""
    folder = recipe.guest / "with/containerlab"
    folder.mkdir(parents=True)
    (folder / "packages.txt").write_text("docker.io\n")
    return replace(recipe, extra="containerlab")


def test_an_extra_adds_packages_and_leaves_the_usual_image_what_it_is(recipe: Recipe) -> None:
    usual = recipe.hash
    folder = recipe.guest / "with/containerlab"
    folder.mkdir(parents=True)
    (folder / "packages.txt").write_text("docker.io\n")
    extended = replace(recipe, extra="containerlab")
    assert recipe.hash == usual != extended.hash
    assert extended.packages == (*recipe.packages, "docker.io")


def test_an_image_with_an_extra_follows_its_files_and_no_other_extras(extended: Recipe) -> None:
    before = extended.hash
    other = extended.guest / "with/other"
    other.mkdir()
    (other / "packages.txt").touch()
    assert extended.hash == before
    (extended.guest / "with/containerlab/go.mod").write_text("module x\n")
    assert extended.hash != before


def test_the_shipped_recipe_with_containerlab_pins_it() -> None:
    folder = recipes.current_recipe("containerlab").extra_folder
    assert folder is not None
    assert extras.pinned(folder / "go.mod") == "v0.79.0"
    assert "github.com/srl-labs/containerlab v0.79.0 h1:" in (folder / "go.sum").read_text()
    with pytest.raises(UsageError, match="no image with docker: there is containerlab"):
        recipes.current_recipe("docker")


def test_unknown_processor_is_refused_by_name() -> None:
    with pytest.raises(EnvironmentLacks, match="no VM for processor riscv64: use a host with x86_64 or aarch64"):
        host_arch("riscv64")


def test_a_full_disk_is_told_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_build, "DISK_NEEDED", 10**18)
    with pytest.raises(
        EnvironmentLacks, match=r"free and building the VM needs .*: free some, or set XDG_CACHE_HOME"
    ):
        image_build._require_disk(tmp_path)


def test_prune_keeps_the_image_asked_for_and_the_newest_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "state"))
    images = [Image(recipes.cache_root() / name) for name in ("keep", "old", "older", "new")]
    for image in images:
        image.folder.mkdir(parents=True)
        image.manifest.touch()
    keep, old, older, new = images
    for seconds, image in enumerate((older, old, new)):
        os.utime(image.manifest, (seconds, seconds))
    (recipes.cache_root() / "build.log").touch()
    assert image_build.prune(keep) == ["older", "old"]
    assert keep.complete
    assert new.complete


def test_prune_leaves_what_a_vm_runs_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep, used, newest = images = [Image(recipes.cache_root() / name) for name in ("keep", "used", "newest")]
    for seconds, image in enumerate(images):
        image.folder.mkdir(parents=True)
        image.manifest.touch()
        os.utime(image.manifest, (seconds, seconds))
    daemon = ["sh", "-c", f"sleep 600 >{tmp_path}/out 2>&1 & echo $! >{tmp_path}/pid"]
    monkeypatch.setattr(boot, "guest_argv", lambda _: daemon)
    guest: Any = SimpleNamespace(image=used, resumes=())
    boot._launch(guest)
    try:
        assert image_build.prune(keep) == []
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while (removed := image_build.prune(keep)) == []:
        assert time.monotonic() < deadline
    assert removed == ["used"]
    assert newest.complete
