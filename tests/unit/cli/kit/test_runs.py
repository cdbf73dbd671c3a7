"""Names of files about several recordings: unique, and as short as possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.kit.run_name import file_stems, folder_of
from lab.errors import UsageError
from lab.telemetry.store.recording_folder import Folder, read_about


@pytest.mark.parametrize(
    ("runs", "stems"),
    [
        (["/x/run"], ["run"]),
        (["/a/run", "/b/run"], ["a-run", "b-run"]),
        (["/a/run", "/b/run", "/c/other"], ["a-run", "b-run", "other"]),
        (["/x/a/run", "/y/a/run"], ["x-a-run", "y-a-run"]),
        (["/a/run", "/b/run", "/c/a-run"], ["a-run", "b-run", "a-run-2"]),
        (["/a/index"], ["index-2"]),
        (["/run", "/a/run"], ["run", "a-run"]),
    ],
)
def test_each_has_a_name_of_its_own(runs: list[str], stems: list[str]) -> None:
    assert file_stems([Path(run) for run in runs], reserved={"index"}) == stems


def test_a_file_in_place_of_a_recording_is_named_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hides no recording of its name."""
    monkeypatch.chdir(tmp_path)
    Path("h1.pcapng").touch()
    with pytest.raises(
        UsageError, match=r"^h1\.pcapng is a file, and no recording: name a folder: rocelab record ls"
    ):
        read_about(Folder(folder_of("h1.pcapng")))
    with pytest.raises(UsageError, match=r"^no recording recordings/h2\.pcapng: rocelab record ls"):
        read_about(Folder(folder_of("h2.pcapng")))
    Path("recordings/h1.pcapng").mkdir(parents=True)
    assert folder_of("h1.pcapng") == Path("recordings/h1.pcapng")


def test_a_link_to_itself_is_no_recording(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert file_stems([loop]) == ["loop"]
    with pytest.raises(UsageError, match=r"^no recording .*/loop: rocelab record ls"):
        read_about(Folder(folder_of(str(loop))))
