"""Files in ``/etc/netns/NAME/`` that replace those of ``/etc`` in a namespace, as ``ip netns exec`` mounts them.

Other programs may use that folder, too. It is created if missing, and removed if rocelab created it and it is empty.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER: Final = Path("/etc/netns")
_OURS: Final = ".made-by-rocelab"


def write_hosts(namespaces: Iterable[str], text: str) -> None:
    """Write an ``/etc/hosts`` for each namespace. Ignores errors: names do not resolve there without the file."""
    with contextlib.suppress(OSError):
        if not FOLDER.exists():
            _making().mkdir(mode=0o755, exist_ok=True)
            (_making() / _OURS).touch()
            _making().rename(FOLDER)  # atomic: the folder never exists without its marker
        for namespace in namespaces:
            folder = FOLDER / namespace
            folder.mkdir(mode=0o755, exist_ok=True)
            (folder / "hosts").write_text(text, encoding="ascii")


def remove(namespaces: Iterable[str]) -> None:
    """Remove the files of namespaces, as far as they exist. Can be repeated."""
    shutil.rmtree(_making(), ignore_errors=True)
    for namespace in namespaces:
        shutil.rmtree(FOLDER / namespace, ignore_errors=True)
    with contextlib.suppress(OSError):
        if [entry.name for entry in FOLDER.iterdir()] == [_OURS]:
            FOLDER.rename(_making())
            shutil.rmtree(_making(), ignore_errors=True)


def _making() -> Path:
    """Return the folder's temporary name while it is created or removed; the name marks it as rocelab's."""
    return FOLDER.with_name(f".{FOLDER.name}-of-rocelab")
