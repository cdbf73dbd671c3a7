"""The contents of an image with containerlab: Go's command, its errors, and a container image that Docker loads."""

import hashlib
import json
import stat
import tarfile
from pathlib import Path

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.vm.image import container_image, debian, extras
from lab.vm.image.arch import ARCHES

AMD64 = ARCHES["x86_64"]
MODULE = "module x\n\ngo 1.26.0\n\nrequire github.com/srl-labs/containerlab v9.8.7\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "extra"
    folder.mkdir()
    (folder / "go.mod").write_text(MODULE)
    (folder / "go.sum").write_text("sums\n")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return scratch


def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, build: str) -> None:
    """A Go of this version, whose ``build`` does what is said."""
    program = tmp_path / "bin/go"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo {version}; exit; fi\n{build}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_go_builds_the_pinned_version_in_a_module_with_its_sums(
    tmp_path: Path, folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(
        tmp_path,
        monkeypatch,
        "go1.26.8",
        f'pwd >{tmp_path}/said; cat go.mod go.sum >>{tmp_path}/said; echo "$GOARCH $GOFLAGS $@" >>{tmp_path}/said',
    )
    extras.build_program(folder, AMD64, scratch, tmp_path / "containerlab")
    said = (tmp_path / "said").read_text()
    assert said.startswith(f"{scratch}/containerlab\n{MODULE}sums\namd64 -mod=readonly build ")
    assert "cmd.Version=9.8.7" in said
    assert said.endswith(f"-o {tmp_path}/containerlab github.com/srl-labs/containerlab\n")


def test_a_build_that_fails_is_told_by_go_itself(
    tmp_path: Path, folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, monkeypatch, "go1.26.8", "echo 'go: downloading x' >&2; echo 'x: 403 Forbidden' >&2; exit 1")
    with pytest.raises(OperationFailed, match=r"building containerlab v9\.8\.7 failed: x: 403 Forbidden"):
        extras.build_program(folder, AMD64, scratch, tmp_path / "containerlab")


def test_an_old_go_is_refused_before_it_fetches_a_new_one(
    tmp_path: Path, folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, monkeypatch, "go1.25.9", "exit 1")
    with pytest.raises(EnvironmentLacks, match=r"Go 1\.25 is too old for containerlab: install 1\.26 or newer"):
        extras.build_program(folder, AMD64, scratch, tmp_path / "containerlab")


def test_an_image_has_its_layer_by_digest_and_starts_frr(tmp_path: Path) -> None:
    """As the Docker image specification v1.2 has it: what is named is there, and hashes are those of the content."""
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"files")
    container_image.pack(layer, AMD64, tmp_path / "frr.tar")
    with tarfile.open(tmp_path / "frr.tar") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    (entry,) = json.loads(content["manifest.json"])
    assert entry["RepoTags"] == ["rocelab/frr:trixie"]
    config = content[entry["Config"]]
    assert entry["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    assert [content[name] for name in entry["Layers"]] == [b"files"]
    said = json.loads(config)
    assert said["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(b'files').hexdigest()}"]
    assert (said["os"], said["architecture"]) == ("linux", "amd64")
    assert said["config"]["Entrypoint"] + said["config"]["Cmd"] == ["/usr/bin/tini", "--", "/usr/local/bin/frr-start"]


def test_the_layer_is_frr_of_the_suite_from_the_given_mirror() -> None:
    argv = container_image.bootstrap(
        Path("/x/frr-start"),
        AMD64,
        Path("/y/layer.tar"),
        mirror="http://mirror.invalid/debian",
        apt_options=["A::B 1"],
    )
    assert argv[-3:] == ["trixie", "/y/layer.tar", "http://mirror.invalid/debian"]
    assert {"--format=tar", "--architectures=amd64", "--aptopt=A::B 1", f"--keyring={debian.KEYRING}"} <= set(argv)
    assert any(word.startswith("--include=frr,") for word in argv)
    assert "--customize-hook=upload /x/frr-start /usr/local/bin/frr-start" in argv
