"""Files that the user named are written all or none, and what was there before outlives a full disk."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import OperationFailed, UsageError
from lab.result_files import copy_result, write_results
from lab.wire.pcapng import Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.telemetry.played import played

FULL = 3000
"""Bytes of the longest file that a command can write. A report has a short Markdown file and a long page."""
PAGE = 50_000
INCAST = Path(__file__).parents[4] / "topologies" / "incast.yaml"


def on_a_full_disk(folder: Path, *words: str, most: int = FULL) -> subprocess.CompletedProcess[str]:
    """Run rocelab in a folder; no file may become longer than ``most`` bytes, and errors stay errors (no signal)."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    code = "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from lab.__main__ import main; main()"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(__file__).parents[4])}
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True,
        preexec_fn=limit, check=False,
    )  # fmt: skip


def below(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_a_plot_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "capture.pcapng").write_bytes(pcapng(records([packets.send(psn) for psn in range(9)])))
    (tmp_path / "plot.svg").write_text("old")
    done = on_a_full_disk(tmp_path, "analyze", "capture.pcapng", "--plot", "plot.svg")
    assert (done.returncode, done.stderr) == (2, "error: cannot write plot.svg: File too large: name another file\n")
    assert (tmp_path / "plot.svg").read_text() == "old"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("extcap", "--install", "--to", "new/folder"), "new/folder/rocelab"),
        (("export", "containerlab", str(INCAST), "-o", "new/folder"), "new/folder"),
        (("examples", "copy", "topologies/incast.yaml", "-o", "new/folder"), "new/folder/topologies"),
    ],
)
def test_no_folder_is_left_where_nothing_was_written(tmp_path: Path, words: tuple[str, ...], wrong: str) -> None:
    done = on_a_full_disk(tmp_path, *words, most=20)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: cannot write {wrong}")
    assert not (tmp_path / "new").exists()


def test_a_report_is_there_with_all_of_its_files_or_not_at_all(tmp_path: Path) -> None:
    played(tmp_path / "run").finished()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.md").write_text("old")
    done = on_a_full_disk(tmp_path, "report", "run", "-o", "out", most=PAGE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot write out/run.html" in done.stderr
    assert {name: (tmp_path / "out" / name).read_text() for name in below(tmp_path / "out")} == {"run.md": "old"}


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("topology", "schema", "-o"), "schema.json"),
        (("craft", "write", "--dst", "10.0.0.2", "--qp", "0x11", "--payload", "x" * FULL, "-o"), "made.pcapng"),
    ],
)
def test_a_file_that_was_there_stays(tmp_path: Path, words: tuple[str, ...], file: str) -> None:
    (tmp_path / file).write_text("old")
    done = on_a_full_disk(tmp_path, *words, file)
    assert done.returncode == 2
    assert f"cannot write {file}" in done.stderr
    assert (tmp_path / file).read_text() == "old"
    assert below(tmp_path) == {file}


def test_rules_of_alerts_are_written_all_or_none(tmp_path: Path) -> None:
    assert on_a_full_disk(tmp_path, "alerts", "--export", "rules").returncode == 2
    assert below(tmp_path) == set()


@pytest.mark.parametrize("form", ["chakra", "goal"])
@pytest.mark.parametrize("there", [(), ("out",), ("out", "out/traces")])
def test_a_job_is_exported_with_all_of_its_files_or_not_at_all(
    form: str, there: tuple[str, ...], tmp_path: Path
) -> None:
    """The groups and the first rank fit. Folders that were created are removed again, and others stay."""
    (tmp_path / "job.yaml").write_text("{name: job, ranks: 2, steps: 40, compute: 1ms, allreduce: 8B}")
    for folder in there:
        (tmp_path / folder).mkdir()
    done = on_a_full_disk(tmp_path, "job", "export", "job.yaml", "-o", "out/traces", "--format", form)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"error: cannot write out/traces/job\S+: File too large: name another folder with -o\n", done.stderr
    )
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")} == {"job.yaml", *there}


def test_examples_are_copied_all_or_none(tmp_path: Path) -> None:
    done = on_a_full_disk(tmp_path, "examples", "copy", "topologies/incast.yaml", "scenarios/incast.py", most=1500)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name another folder with -o" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_folder_is_copied_with_all_of_its_files_or_not_at_all(tmp_path: Path) -> None:
    source = tmp_path / "run"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("x")
    copy_result(source, tmp_path / "copy", "name another")
    assert below(tmp_path / "copy") == {"sub/file"}
    (source / "full").symlink_to("/dev/full/none")  # the last of several
    with pytest.raises(UsageError, match=r"^cannot write \S+/other: \[Errno 20\] .*: name another$"):
        copy_result(source, tmp_path / "other", "name another")
    assert below(tmp_path) == {"run/sub/file", "copy/sub/file"}


def test_a_copy_to_a_folder_that_is_there_leaves_it_as_it_is(tmp_path: Path) -> None:
    for name in ("run", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with pytest.raises(UsageError, match=r"^cannot write \S+/other: File exists: name another$"):
        copy_result(tmp_path / "run", tmp_path / "other", "name another")
    assert (tmp_path / "other" / "file").read_text() == "other"


def test_an_interrupted_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()

    def interrupted(_: str, target: str, **_how: object) -> None:
        Path(target).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copystat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_result(tmp_path / "run", tmp_path / "new" / "copy", "name another")
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_what_replaces_a_file_has_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    plain, link, target = tmp_path / "plain", tmp_path / "link", tmp_path / "target"
    plain.write_text("old")
    plain.chmod(0o640)
    link.symlink_to(target)
    write_results({plain: "new", link: b"linked"})
    assert (plain.read_text(), plain.stat().st_mode & 0o777) == ("new", 0o640)
    assert (link.is_symlink(), target.read_bytes()) == (True, b"linked")


def test_a_folder_in_place_of_a_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_results({tmp_path / "folder": "x", tmp_path / "other": "y"})
    assert below(tmp_path) == set()


def test_a_folder_in_place_of_a_later_file_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    first, folder = tmp_path / "first", tmp_path / "folder"
    first.write_text("old")
    folder.mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_results({first: "new", folder: "x"})
    assert first.read_text() == "old"


def test_a_link_that_somebody_put_there_is_not_followed(tmp_path: Path) -> None:
    """In a folder of several users, a link with the name of the new file leads to a file of root."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / ".page.new").symlink_to(tmp_path / "secret")
    write_results({tmp_path / "page": "new"})
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "page").read_text() == "new"
    assert not (tmp_path / "page").is_symlink()


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    long = tmp_path / ("\u4e16" * 85)
    write_results({long: "new"})
    assert below(tmp_path) == {long.name}


def test_a_writable_file_in_a_folder_of_others_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so that the test answers for the kernel."""
    file = tmp_path / "file"
    file.write_text("old")
    place = file.stat().st_ino
    monkeypatch.setattr("lab.result_files.os.access", lambda path, _: path != tmp_path)
    write_results({file: "new"})
    assert (file.read_text(), file.stat().st_ino) == ("new", place)


def test_a_file_that_is_a_mount_point_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container has single files of its host: rename(2) fails with EBUSY."""

    def busy(_: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy", str(target))

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(Path, "replace", busy)
    write_results({tmp_path / "file": "new"})
    assert (tmp_path / "file").read_text() == "new"
    assert below(tmp_path) == {"file"}


def test_a_capture_that_cannot_be_written_on_is_named() -> None:
    with (
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(OperationFailed, match="the capture /dev/full"),
    ):
        Writer(full)
