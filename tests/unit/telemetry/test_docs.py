"""The page about recordings names all that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.machine.docs import PAGES
from lab.telemetry.store import recording_folder
from lab.telemetry.store.recording_folder import Folder
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import Made

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_names_every_file_and_table(tmp_path: Path) -> None:
    page = (PAGES / "recording.md").read_text()
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.phase("only")
    path = made.finished()
    assert f"`version` ({recording_folder.VERSION})" in page
    for file in path.rglob("*"):
        if file.is_file() and file.suffix != ".parquet":
            assert f"`{file.relative_to(path)}`" in page, file
        elif file.is_file():
            assert f"| `{file.stem}` |" in page, file
    names = (
        Folder(path).log.name,
        Folder(path).commands.name,
        "state/before.json",
        "truth/truth.jsonl",
        "terminal/commands.cast",
    )
    assert all(f"`{name}`" in page for name in names)
