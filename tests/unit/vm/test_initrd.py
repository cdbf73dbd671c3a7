"""The initial RAM disk, read back by cpio, and the order in which its modules load."""

import lzma
import subprocess
from pathlib import Path

import pytest

from lab.vm.image.initrd import Cpio, build_initrd, load_order

MODULES_DEP = """\
kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz kernel/fs/jbd2/jbd2.ko.xz
kernel/fs/jbd2/jbd2.ko.xz: kernel/lib/crc16.ko.xz
kernel/fs/mbcache.ko.xz:
kernel/lib/crc16.ko.xz:
kernel/drivers/block/virtio-blk.ko.xz:
"""


def test_every_module_loads_after_what_it_needs() -> None:
    order = [Path(path).name.split(".")[0] for path in load_order(MODULES_DEP, ("virtio_blk", "ext4"))]
    assert sorted(order) == ["crc16", "ext4", "jbd2", "mbcache", "virtio-blk"]
    assert order.index("crc16") < order.index("jbd2") < order.index("ext4")
    assert order.index("mbcache") < order.index("ext4")


def test_what_is_built_in_is_not_loaded() -> None:
    assert load_order("", ("virtio_blk", "ext4")) == []


def test_a_dependency_that_is_not_listed_is_an_error() -> None:
    with pytest.raises(KeyError, match="gone"):
        load_order("kernel/ext4.ko: kernel/gone.ko\n", ("ext4",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    modules = tmp_path / "usr/lib/modules/7.2"
    for line in MODULES_DEP.splitlines():
        path = modules / line.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(path.name.encode()))
    (modules / "modules.dep").write_text(MODULES_DEP)
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/busybox").write_bytes(b"busybox")
    (tmp_path / "init").write_text("#!/bin/busybox sh\n")
    return tmp_path


def test_cpio_reads_it_back(tree: Path, tmp_path: Path) -> None:
    content = build_initrd(tree, "7.2", tree / "init")
    listing = subprocess.run(
        ["cpio", "-itv", "--quiet"], input=content, capture_output=True, check=True
    ).stdout.decode()
    rows = {line.split()[-1]: line.split() for line in listing.splitlines()}
    assert rows["init"][0] == "-rwxr-xr-x"
    assert rows["dev/console"][0] == "crw-------"
    assert rows["dev/console"][4:6] == ["5,", "1"]
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["cpio", "-id", "--quiet", "lib/*", "init"], input=content, cwd=unpacked, check=True)
    order = (unpacked / "lib/order").read_text().split()
    assert (unpacked / "lib/jbd2.ko").read_bytes() == b"jbd2.ko.xz"
    assert sorted(order) == sorted(path.name for path in unpacked.glob("lib/*.ko"))


def test_a_truncated_archive_is_noticed_by_cpio() -> None:
    archive = Cpio()
    archive.file("a", b"x" * 100)
    done = subprocess.run(["cpio", "-it"], input=archive.finish()[:-150], capture_output=True, check=False)
    assert done.returncode != 0
