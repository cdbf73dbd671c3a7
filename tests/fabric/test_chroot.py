"""A fabric in a root that is no mount point, as chroot(1) makes one of any folder: `mount --make-rslave /` fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fabric.command import ROOT, hosts

pytestmark = pytest.mark.fabric

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


def test_a_fabric_comes_up_and_goes_in_a_root_that_is_no_mount_point(tmp_path: Path) -> None:
    file = hosts(tmp_path, "chrooted", "left", "right")
    (tmp_path / "root").mkdir()
    inside = ["sh", "-euc", BUILD, "build", str(ROOT), sys.executable, str(file)]
    enter = ["sh", "-euc", ENTER, "enter", str(tmp_path / "root"), *inside]
    argv = ["unshare", "--mount", "--propagation", "private", *enter]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
