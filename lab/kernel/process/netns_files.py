"""Files that a namespace has in place of the host's: ``/etc/netns/NAME/``, put over ``/etc`` by ``ip netns exec``.

That folder may be other people's, too: it is made where there is none, and taken away when it is ours and empty.
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
    """Give each namespace an ``/etc/hosts``; where ``/etc`` cannot be written, names are not known there."""
    with contextlib.suppress(OSError):
        if not FOLDER.exists():
            _making().mkdir(mode=0o755, exist_ok=True)
            (_making() / _OURS).touch()
            _making().rename(FOLDER)  # at one stroke: however this ends, the folder is not there without its mark
        for namespace in namespaces:
            folder = FOLDER / namespace
            folder.mkdir(mode=0o755, exist_ok=True)
            (folder / "hosts").write_text(text, encoding="ascii")


def remove(namespaces: Iterable[str]) -> None:
    """Take the files of namespaces away, however many are there. Can be repeated."""
    shutil.rmtree(_making(), ignore_errors=True)
    for namespace in namespaces:
        shutil.rmtree(FOLDER / namespace, ignore_errors=True)
    with contextlib.suppress(OSError):
        if [entry.name for entry in FOLDER.iterdir()] == [_OURS]:
            FOLDER.rename(_making())
            shutil.rmtree(_making(), ignore_errors=True)


def _making() -> Path:
    """What the folder is called before it is whole, and when it goes: ours by its name."""
    return FOLDER.with_name(f".{FOLDER.name}-of-rocelab")
