"""A copy of the checkout in a guest's memory, for its tests: ``python -m tests.fabric.memory_checkout VM COMMAND``.

The guest has the checkout by 9p and caches nothing of it, because the host may change it. Each look at a file waits
for the host, 1 to 3 ms of a core. A start of Python with rocelab's modules looks thousands of times, and so does
pytest for each session. The copy costs one read of an archive.

Only the tests see it: it is mounted over the shared folders in a mount namespace of their own.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.vm.calls.handover import GUEST_CACHE
from lab.vm.host import vm_state

if TYPE_CHECKING:
    from lab.vm.host.vm_state import RunningVm

_FOLDERS: Final = ("lab", "tests", "scenarios", "topologies")
"""The folders of a checkout that tests import or read most."""
_BYTECODE: Final = "bytecode"
"""The folder of the guests' bytecode, by the path of the checkout (scripts/guest/.../shares)."""
_IN_GUEST: Final = (
    """set -eu
checkout=$PWD kept=$1$PWD
mount -t tmpfs -o mode=755 checkout /mnt
tar --warning=no-timestamp -xf "$2" -C /mnt
for folder in """
    + " ".join(_FOLDERS)
    + """; do
    mount --bind "/mnt/$folder" "$checkout/$folder"
    mount --bind "/mnt/$folder" "/rocelab/$folder"
done
[ ! -d /mnt/bytecode ] || mount --bind /mnt/bytecode "$kept"
umount --lazy /mnt
shift 2
exec "$@"
"""
)


def archive_path(vm: RunningVm, name: str) -> Path:
    """The file of the archive for the VM ``name``, in the folder that it shares with the host."""
    return vm.guest_cache / f"checkout-of-{name}.tar"


def pack(vm: RunningVm, name: str, checkout: Path) -> None:
    """Write the archive: the folders of ``checkout``, and the bytecode that guests have compiled of them."""
    path = archive_path(vm, name)
    with tarfile.open(path, "w") as archive:
        for folder in _FOLDERS:
            archive.add(checkout / folder, folder, filter=_without_bytecode_of_the_host)
        bytecode = vm.guest_cache / _BYTECODE / checkout.relative_to("/")
        for file in sorted(bytecode.rglob("*.pyc")):  # a guest that is up writes others, which it renames
            archive.add(file, Path(_BYTECODE) / file.relative_to(bytecode))
    path.chmod(0o644)  # QEMU may run as another user


def _without_bytecode_of_the_host(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).name == "__pycache__" else member


def within_copy(vm: RunningVm, name: str, *command: str) -> list[str]:
    """The command line in the guest that runs ``command`` with the copy instead of the shared folders."""
    archive = GUEST_CACHE / archive_path(vm, name).relative_to(vm.guest_cache)
    words = ["sh", "-c", _IN_GUEST, "sh", str(GUEST_CACHE / _BYTECODE), str(archive)]
    return ["unshare", "--mount", "--propagation", "private", *words, *command]


def main() -> int:
    """Run a command in the VM of this name, which is up, with a copy of this checkout. Return its exit code."""
    name, *command = sys.argv[1:]
    vm, checkout = vm_state.state_folder(name).running(), Path(__file__).parents[2]
    if vm is None:
        print(f"error: no VM {name} is up", file=sys.stderr)
        return 4
    try:
        pack(vm, name, checkout)
        words = ["vm", "run", "--name", name, "--", *within_copy(vm, name, *command)]
        return subprocess.run([sys.executable, "-m", "lab", *words], cwd=checkout, check=False).returncode
    finally:
        archive_path(vm, name).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
