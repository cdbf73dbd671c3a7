"""Records that callers add: one way to write all kinds, and readers that return values of one type."""

from __future__ import annotations

import json
import resource
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from lab.errors import InvalidInput, OperationFailed, UsageError
from lab.telemetry.record.recorder import Recorder, _failed, _made, _removed_on_failure
from lab.telemetry.store.recording_folder import Folder, RecordKind, note_failure, read_lines, read_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A recorder without a sampler: records do not need one."""
    unused = cast("Any", None)
    return Recorder(folder=Folder(tmp_path), fabric=unused, about={}, with_state=False, _sampler=unused)


def number(line: Mapping[str, Any]) -> tuple[int, int]:
    return line["ns"], int(line["value"])


@pytest.mark.parametrize("kind", RecordKind)
def test_every_kind_is_written_and_read_alike(recorder: Recorder, kind: RecordKind) -> None:
    assert recorder.record(kind, ns=5, value=1) == 5
    before = time.monotonic_ns()
    assert before <= recorder.record(kind, value=2, kind="any data") <= time.monotonic_ns()
    (first, (ns, second)) = read_records(recorder.folder.records(kind), number)
    assert (first, second) == ((5, 1), 2)
    assert ns >= before


def test_kinds_have_files_of_their_own(recorder: Recorder) -> None:
    for value, kind in enumerate(RecordKind):
        recorder.record(kind, ns=1, value=value)
    folder = recorder.folder
    paths = (
        folder.notes, folder.commands, folder.transfers, folder.job_steps, folder.appended_rows("job_requests"),
        folder.jobs, folder.truth, folder.configuration, folder.sysctls, folder.forwarding, folder.audit,
    )  # fmt: skip
    assert [line["value"] for path in paths for line in read_lines(path)] == list(range(len(RecordKind)))


@pytest.mark.parametrize("line", ['{"ns": 1}', '{"ns": 1, "value": "x"}', '{"ns": 1, "value": [1]}'])
def test_a_record_of_another_form_is_damage(tmp_path: Path, line: str) -> None:
    path = Folder(tmp_path).notes
    path.write_text(f"{line}\n")
    with pytest.raises(InvalidInput, match="is damaged"):
        read_records(path, number)


def test_a_kind_that_was_never_recorded_has_no_records(tmp_path: Path) -> None:
    assert read_records(Folder(tmp_path).truth, number) == ()


def test_a_failed_write_is_reported(recorder: Recorder) -> None:
    recorder.folder.notes.mkdir()
    with pytest.raises(OperationFailed, match="the data before that time is readable"):
        recorder.record(RecordKind.NOTE, value=1)


def test_a_reason_for_which_the_disk_has_no_room_leaves_the_description(tmp_path: Path) -> None:
    about = tmp_path / "recording.json"
    about.write_text('{"why": "", "name": "run"}')
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (about.stat().st_size, before[1]))
    try:
        note_failure(about, "No space left on device")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert about.read_text() == '{"why": "", "name": "run"}'
    note_failure(about, "full")
    assert json.loads(about.read_text()) == {"why": "full", "name": "run"}


def begin_in(path: Path) -> None:
    folder, new = _made(path)
    with _removed_on_failure(path, new):
        (path / "counters").mkdir()
        (path / "recording.json").write_text("{}")
        raise _failed(folder, "No space left on device")


def test_the_name_is_free_again(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="No space left on device: nothing was recorded; name another folder"):
        begin_in(tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == [], "neither is a folder left that was made for it"


def test_a_folder_of_other_recordings_stays(tmp_path: Path) -> None:
    (tmp_path / "runs" / "other").mkdir(parents=True)
    with pytest.raises(OperationFailed):
        begin_in(tmp_path / "runs" / "run")
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["other"]


def test_an_empty_folder_stays_and_is_empty(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed):
        begin_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_an_empty_folder_stays_and_the_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with pytest.raises(OperationFailed):
        begin_in(tmp_path / "run")
    assert (tmp_path / "run").is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []
    assert (tmp_path / "disk").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["other", "recording.json"])
def test_what_was_there_before_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Exception, match="is not empty"):
        begin_in(tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {name: "mine"}


def test_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Exception, match=r"cannot write .*file: File exists"):
        begin_in(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_made_leaves_none_of_its_parents(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name another folder"):
        _made(tmp_path / "new" / "parents" / ("n" * 300))
    assert not any(tmp_path.iterdir())
