"""The argument lists that create a Debian root file system, and the choice of its mirror."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.markers import Marker

from lab.errors import EnvironmentLacks
from lab.kernel.process import process
from lab.vm.image.recipe import PYTHON, SUITE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.vm.image.arch import Arch
    from lab.vm.image.recipe import Recipe

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DIST_PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"

_INDEX_FORMAT = "$(ORIGIN)\t$(RELEASE)\t$(COMPONENT)\t$(REPO_URI)"
_UNKNOWN_ORIGIN = "$(ORIGIN)"
_SUITES = frozenset({"bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable"})
_TAKEN_FROM_HOST = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::ForceIPv")


# dpkg-excludes leaves out dracut's kernel hook, which would build an initrd that nothing boots. dracut's own package
# scripts run the hook, so an empty one takes its place.
_NO_INITRD = """
hook=$1/etc/kernel/postinst.d/dracut
mkdir -p "${hook%/*}" && echo '#!/bin/sh' >"$hook" && chmod 755 "$hook"
"""


def in_namespaces(argv: Iterable[str | Path], *, root: bool) -> list[str | Path]:
    """Return ``argv`` as root of new mount and PID namespaces, and of a user namespace for users other than root.

    Nothing is mounted on the host, and killing the first process ends all of them.
    """
    users = [] if root else ["--map-root-user", "--map-auto"]
    return ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *argv]


def pick_mirror(index_targets: str) -> str | None:
    """Return the main archive in the output of ``apt-get indextargets``; None if the host has no Debian mirror.

    apt knows the origin of an archive only after an update. Before that, the usual path decides.
    """
    for line in index_targets.splitlines():
        origin, release, component, uri = line.split("\t")
        debian = uri.rstrip("/").endswith("/debian") if origin == _UNKNOWN_ORIGIN else origin == "Debian"
        if debian and release in _SUITES and component == "main":
            return uri
    return None


def host_mirror() -> str | None:
    """Return the Debian mirror of this host's apt; None leaves the choice to mmdebstrap."""
    argv = ("apt-get", "indextargets", "--format", _INDEX_FORMAT)
    updated = process.run([*argv, "Created-By: Packages"]).stdout
    configured = process.run([*argv, "--no-release-info", "Created-By: Packages"]).stdout
    return pick_mirror(updated + configured)


def pick_apt_options(dump: str) -> list[str]:
    """Return the lines of ``apt-config dump`` that are needed to reach a mirror: proxies, timeouts, retries."""
    return [line for line in dump.splitlines() if line.startswith(_TAKEN_FROM_HOST) and not line.endswith(' "";')]


def host_apt_options() -> list[str]:
    """Return the options by which this host's apt reaches its mirrors."""
    return pick_apt_options(process.run(["apt-config", "dump"]).stdout)


def bootstrap(
    recipe: Recipe, stage: Path, tree: Path, *, mirror: str | None, apt_options: Iterable[str]
) -> list[str]:
    """Return mmdebstrap's argument list: packages into ``tree``, the files of ``stage``, then ``provision``."""
    settings = ['APT::Install-Recommends "false"', 'Acquire::Languages "none"', *apt_options]
    hooks = [
        ("setup", _NO_INITRD),
        ("setup", (recipe.guest / "apt-backports").read_text(encoding="utf-8")),
        ("customize", f"sync-in {shlex.quote(str(stage))} /"),
        ("customize", 'chroot "$1" /usr/local/lib/rocelab/provision image'),
    ]
    return [
        "mmdebstrap",
        "--mode=unshare",
        "--format=directory",
        "--variant=minbase",
        f"--keyring={KEYRING}",  # in addition to /etc/apt/trusted.gpg.d, which on Ubuntu lacks Debian's keys
        f"--architectures={recipe.arch.debian}",
        f"--include={','.join(recipe.packages)}",
        f"--dpkgopt={recipe.guest / 'dpkg-excludes'}",
        *(f"--aptopt={setting}" for setting in settings),
        *(f"--{kind}-hook={command}" for kind, command in hooks),
        SUITE,
        str(tree),
        *([mirror] if mirror else []),
    ]


def lock_for_guest(lock: str, arch: Arch) -> str:
    """Return the lines of a lock file that apply in the guest, without their conditions.

    pip would evaluate the conditions (``; python_full_version < '3.12'``) for the host's Python.
    """
    guest = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": arch.machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{PYTHON}.0",
        "python_version": PYTHON,
        "sys_platform": "linux",
    }
    kept = []
    for requirement in re.split(r"(?m)^(?=\S)", lock):
        pinned, semicolon, rest = requirement.partition(";")
        condition, backslash, hashes = rest.partition("\\")
        if not semicolon:
            kept.append(requirement)
        elif Marker(condition.strip()).evaluate(guest):
            kept.append(pinned + backslash + hashes)
    return "".join(kept)


def pip_install(arch: Arch, lock: Path, target: Path, python: str) -> list[str]:
    """Return the argument list of the host's pip: packages of ``lock`` into ``target``, for the guest's Python.

    --ignore-requires-python: the lock already decides the versions, and pip would check them against its own Python.
    """
    platforms = [word for name in arch.pip_platforms for word in ("--platform", name)]
    return [
        *(python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"),
        *(
            "--no-compile",
            "--ignore-requires-python",
            "--implementation",
            "cp",
            "--python-version",
            PYTHON,
            *platforms,
        ),
        *("--target", str(target), "--requirement", str(lock)),
    ]


def require_keyring() -> None:
    """Raise EnvironmentLacks if this host cannot verify Debian's signatures."""
    if not KEYRING.is_file():
        raise EnvironmentLacks(f"no {KEYRING}", "apt-get install debian-archive-keyring")
