"""A fabric in a root that is no mount point, as chroot(1) makes one of any folder: `mount --make-rslave /` fails."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.kernel.process import cgroup, netns_files, process
from tests.fabric.command import ROOT, hosts

pytestmark = pytest.mark.fabric

NAME = "chrooted"
ENTER = """
mkdir "$1/run"
mount -t tmpfs tmpfs "$1/run"
for folder in /*; do
    if [ -h "$folder" ]; then
        cp -d "$folder" "$1$folder"
    elif [ -d "$folder" ] && [ "$folder" != /run ]; then
        mkdir "$1$folder"
        mount --rbind "$folder" "$1$folder"
    fi
done
root=$1
shift
exec chroot "$root" "$@"
"""
BUILD = """
cd "$1"
! mount --make-rslave / 2>/dev/null || exit 9
"$2" -m lab up "$3"
"$2" -m lab down
[ -z "$(ls /run/netns 2>/dev/null)" ]
"""


BREAK = """
cd "$1"
"$2" -m lab up "$3"
exit 9
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder to be a root. Processes that still run in it at the end, because a test failed, are ended."""
    root = tmp_path / "root"
    root.mkdir()
    yield root
    clear(root)


def clear(root: Path) -> None:
    """End the programs in a root, which no command outside knows, and remove their cgroups and files."""
    process.kill(inhabitants(root), meant=lambda pid: pid in inhabitants(root))
    for group in groups():
        cgroup.remove(group)
    netns_files.remove(each.name for each in files())


def files() -> list[Path]:
    """Folders of the fabric's nodes in /etc/netns, which a root shares with the machine."""
    return list(netns_files.FOLDER.glob(f"*{NAME}*"))


def inhabitants(root: Path) -> list[int]:
    """Processes to which a folder is the root."""
    found = []
    for link in Path("/proc").glob("[0-9]*/root"):
        with contextlib.suppress(OSError):  # it has ended
            if link.readlink() == root:
                found.append(int(link.parent.name))
    return found


def groups() -> list[Path]:
    """Cgroups of the fabric's nodes."""
    place = cgroup.place_for(NAME)
    return [] if place is None else list(place.parent.glob(f"*{NAME}*"))


def enter(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a root, which is given the fabric's file."""
    file = hosts(root.parent, NAME, "left", "right")
    inside = ["sh", "-euc", script, "script", str(ROOT), sys.executable, str(file)]
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", ENTER, "enter", str(root), *inside]
    return subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)


def test_a_fabric_comes_up_and_goes_in_a_root_that_is_no_mount_point(root: Path) -> None:
    done = enter(root, BUILD)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_failure_leaves_in_a_root_is_ended(root: Path) -> None:
    """The fixture itself: daemons go on, and no ``down`` outside would find them."""
    done = enter(root, BREAK)
    assert done.returncode == 9, done.stdout + done.stderr
    assert inhabitants(root)
    assert groups() or cgroup.place_for(NAME) is None
    assert files()
    clear(root)
    assert (inhabitants(root), groups(), files()) == ([], [], [])
