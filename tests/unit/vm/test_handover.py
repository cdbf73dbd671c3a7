"""Files that a call copies to the guest and back; the guest is a program of this machine, in its own folder."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from lab.errors import OperationFailed, UsageError
from lab.vm.calls import handover
from lab.vm.calls.handover import NamedFile, prepared
from lab.vm.host.qemu import Share
from lab.vm.host.vm_state import RunningVm
from lab.vm.image.recipe import Image
from tests.command_line import named_files


@pytest.fixture
def guest(running: RunningVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunningVm:
    """It shares tmp_path/checkout; the caller is in tmp_path/mine."""
    for name in ("checkout", "mine", "else"):
        (tmp_path / name).mkdir()
    image = Image(tmp_path / "image")
    monkeypatch.setattr(handover, "GUEST_CACHE", image.guest_cache)
    monkeypatch.chdir(tmp_path / "mine")
    shares = (
        Share("checkout", tmp_path / "checkout"),
        Share("recordings", tmp_path / "checkout/recordings", writable=True),
        Share("cache", image.guest_cache, writable=True),
    )
    return replace(running, image=image, shares=shares)


told: Final[list[str]] = []
"""What the last call has said of what it left behind."""


def run(guest: RunningVm, words: Sequence[str], *files: NamedFile) -> str:
    """Run a command as the guest would, and return its output."""
    told.clear()
    with prepared(guest, words, files, told.append) as made:
        assert not made.directory.startswith(str(Path.cwd())) or Path.cwd().name == "checkout"
        return subprocess.run(made.words, cwd=made.directory, check=True, capture_output=True, text=True).stdout


def result(text: str) -> NamedFile:
    return NamedFile(text, written=True)


def not_brought(what: str) -> str:
    return f"not brought back from the VM: {what} (what is: rocelab vm run --help)"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("text", ["f.yaml", "./f.yaml", "sub/f.yaml", "../else/f.yaml", "{0}/else/f.yaml"])
def test_a_file_is_read_wherever_it_is(guest: RunningVm, tmp_path: Path, text: str) -> None:
    text = text.format(tmp_path)
    Path("sub").mkdir()
    Path(text).write_text("mine")
    assert run(guest, ["cat", text], NamedFile(text)) == "mine"
    assert run(guest, ["echo", text], NamedFile(text)).strip().endswith(text.removeprefix("../"))


def test_relative_names_stay_as_they_were_typed(guest: RunningVm) -> None:
    Path("f.yaml").write_text("mine")
    assert run(guest, ["echo", "f.yaml", "../else/g"], NamedFile("f.yaml"), NamedFile("../else/g")) == (
        "f.yaml ../else/g\n"
    )


@pytest.mark.parametrize("word", ["{}", "-o{}", "--output={}"])
@pytest.mark.parametrize("text", ["out.txt", "sub/out.txt", "../else/out.txt", "{0}/else/out.txt"])
def test_what_is_written_comes_back(guest: RunningVm, tmp_path: Path, text: str, word: str) -> None:
    text = text.format(tmp_path)
    Path("sub").mkdir()
    script = 'v=${1#--output=}; echo result > "${v#-o}"'
    run(guest, ["sh", "-c", script, "sh", word.format(text)], result(text))
    assert Path(text).read_text() == "result\n"


def test_from_a_shared_folder_too(guest: RunningVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "checkout")
    out = str(tmp_path / "else/out")
    Path("in").write_text("mine")
    assert run(guest, ["pwd"]) == f"{tmp_path}/checkout\n"
    run(guest, ["cp", "in", out], NamedFile("in"), result(out))
    assert Path(out).read_text() == "mine"


def test_in_a_folder_that_the_guest_only_reads_what_is_written_takes_the_same_way(
    guest: RunningVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in one that it may write to, it is written at once."""
    monkeypatch.chdir(tmp_path / "checkout")
    for name in ("sub", "recordings"):
        Path(name).mkdir()
    script = 'echo "$1" > "$1"'
    for text in ("out", "sub/out", f"{tmp_path}/checkout/abs"):
        run(guest, ["sh", "-c", script, "sh", text], result(text))
        assert Path(text).read_text().startswith(f"{handover.GUEST_CACHE}/calls/")
    run(guest, ["sh", "-c", script, "sh", "recordings/x"], result("recordings/x"))
    assert Path("recordings/x").read_text() == "recordings/x\n"


def test_a_shared_link_is_named_by_what_it_leads_to(
    guest: RunningVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest sees that it is a link, and not where to."""
    monkeypatch.chdir(tmp_path / "checkout")
    Path("real.yaml").touch()
    Path("link.yaml").symlink_to("real.yaml")
    assert run(guest, ["echo", "link.yaml"], NamedFile("link.yaml")) == f"{tmp_path}/checkout/real.yaml\n"
    assert run(guest, ["echo", "real.yaml"], NamedFile("real.yaml")) == "real.yaml\n"


def test_a_shared_file_is_read_in_its_place(guest: RunningVm, tmp_path: Path) -> None:
    (tmp_path / "checkout/f").write_text("shared")
    assert run(guest, ["echo", "../checkout/f"], NamedFile("../checkout/f")) == f"{tmp_path}/checkout/f\n"


def test_only_what_was_named_comes_back(guest: RunningVm, tmp_path: Path) -> None:
    """The guest's root writes beside the one file that was asked for whatever this machine might run one day."""
    for name in ("Makefile", "lab/x.py", ".git/hooks/pre-commit", "x.py", "xy.pcapng"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("mine")
    script = (
        "mkdir -p lab .git/hooks; for f in x.pcapng Makefile GNUmakefile lab/x.py .git/hooks/pre-commit .envrc "
        "json.py x.py xy.pcapng x_1.pcapng ../else/Makefile ../else/new; do echo evil > $f; done"
    )
    before = names(Path())
    (tmp_path / "else/Makefile").write_text("mine")
    run(guest, ["sh", "-c", f"mkdir -p ../else; {script}"], result("x.pcapng"))
    assert names(Path()) == sorted([*before, "x.pcapng"])
    assert {Path(name).read_text() for name in before} == {"mine"}
    assert names(tmp_path / "else") == ["Makefile"]
    assert told == [not_brought("../else/Makefile, ../else/new, .envrc and 8 more")]


def test_the_files_of_a_ring_come_back_with_the_one_that_was_named(guest: RunningVm, tmp_path: Path) -> None:
    out = str(tmp_path / "else/ring.pcapng")
    (tmp_path / "else/ring_00002.pcapng").write_text("of the last time")
    (tmp_path / "mine/target").write_text("mine")
    (tmp_path / "else/ring_00003.pcapng").symlink_to(tmp_path / "mine/target")
    script = 'cd "$(dirname $1)"; for n in 1 2 3; do echo $n > ring_0000$n.pcapng; done; echo 1 > ring_00001.py'
    run(guest, ["sh", "-c", script, "sh", out], result(out))
    assert [(tmp_path / f"else/ring_0000{n}.pcapng").read_text() for n in (1, 2, 3)] == ["1\n", "2\n", "mine"]
    assert len(names(tmp_path / "else")) == 3
    assert "ring_00003.pcapng" in told[0]
    assert "ring_00001.py" in told[0]


def test_a_folder_that_was_named_comes_back_whole(guest: RunningVm, tmp_path: Path) -> None:
    out = f"{tmp_path}/else/new"
    for text in ("new", out):
        run(guest, ["sh", "-c", "mkdir -p $1/deep; echo 1 > $1/a; echo 2 > $1/deep/b", "sh", text], result(text))
        assert names(Path(text)) == ["a", "deep/b"]
        assert Path(text, "deep/b").read_text() == "2\n"
    assert not told


def test_in_a_folder_that_is_there_only_what_is_new_is_written(guest: RunningVm, tmp_path: Path) -> None:
    """No file that was there, none that ``ls`` does not show, and none behind a link or beside the folder."""
    Path("out/sub").mkdir(parents=True)
    for name in ("out/Makefile", "out/sub/kept"):
        Path(name).write_text("mine")
    Path("out/link").symlink_to(tmp_path / "else")
    Path("out/dangling").symlink_to(tmp_path / "else/made")
    script = (
        "cd out; mkdir -p sub new/.h link .git; for f in Makefile sub/kept sub/new new/a new/.h/b link/evil dangling "
        ".git/config ../beside; do echo theirs > $f; done"
    )
    run(guest, ["sh", "-c", script], result("out"))
    assert names(tmp_path / "else") == []
    assert names(Path()) == sorted(f"out/{name}" for name in ("Makefile", "dangling", "new/a", "sub/kept", "sub/new"))
    assert {Path("out", name).read_text() for name in ("Makefile", "sub/kept")} == {"mine"}
    assert Path("out/sub/new").read_text() == "theirs\n"
    assert "and 4 more (" in told[0]


def test_a_link_that_the_user_named_leads_where_it_led(guest: RunningVm, tmp_path: Path) -> None:
    Path("link").symlink_to(tmp_path / "else/real")
    run(guest, ["sh", "-c", "echo 1 > link"], result("link"))
    assert Path("link").is_symlink()
    assert (tmp_path / "else/real").read_text() == "1\n"


def test_what_stays_behind_is_told_in_plain_characters(guest: RunningVm) -> None:
    run(guest, ["sh", "-c", "touch $(printf 'a\\033[2Jb')"])
    assert told == [not_brought(r"'a\x1b[2Jb'")]


def test_what_was_only_read_is_left_alone_whatever_the_guest_makes_of_it(guest: RunningVm) -> None:
    for name in ("read", "changed"):
        Path(name).write_text("old")
    Path("read").chmod(0o400)
    before = Path("read").stat()
    run(guest, ["sh", "-c", "cat read; echo new > changed"], NamedFile("read"), NamedFile("changed"))
    assert Path("read").stat().st_mtime_ns == before.st_mtime_ns
    assert Path("changed").read_text() == "old"
    assert told == [not_brought("changed")]


def test_links_and_pipes_of_the_guest_stay_behind(guest: RunningVm, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    script = f"ln -s {tmp_path}/secret out/link; ln -s {tmp_path} out/folder; mkfifo out/pipe; echo 1 > out/file"
    run(guest, ["sh", "-c", f"mkdir out; {script}"], result("out"))
    assert names(Path()) == ["out/file"]


def test_what_only_the_guest_knows_to_be_a_link_stays_behind(guest: RunningVm) -> None:
    """QEMU makes a plain file of it, and an attribute that says what it is (lab/vm/host/isolation.py)."""
    script = (
        "import os; open('link', 'w').write('/etc/shadow'); open('file', 'w').close(); "
        r"os.setxattr('link', 'user.virtfs.mode', b'\xff\xa1\0\0')"
    )
    run(guest, [sys.executable, "-c", script], result("link"), result("file"))
    assert names(Path()) == ["file"]


def test_results_come_back_of_a_command_that_failed(guest: RunningVm) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(guest, ["sh", "-c", "echo part > out; exit 1"], result("out"))
    assert Path("out").read_text() == "part\n"


def test_nothing_is_left_and_what_killed_callers_left_is_taken_away(guest: RunningVm) -> None:
    calls = guest.guest_cache / "calls"
    (calls / "killed/tmp").mkdir(parents=True)
    with prepared(guest, ["true"], (), told.append):
        (mine,) = calls.iterdir()
        assert mine.name != "killed"
        with prepared(guest, ["true"], (), told.append):
            assert mine in calls.iterdir()
    assert not list(calls.iterdir())


@pytest.mark.parametrize("line", ["capture h1 -o h1", "capture h1 -oh1 --fabric h1", "capture --output=h1 -- h1"])
def test_only_the_word_that_is_the_file_gets_the_guest_s_name(
    guest: RunningVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path / "checkout")
    (file,) = named_files(line.split())
    said = run(guest, ["echo", *line.split()], file).split()
    changed = [(was, word) for was, word in zip(line.split(), said, strict=True) if was != word]
    assert [(was.removesuffix("h1"), word.partition("/")[0]) for was, word in changed] == [
        (was.removesuffix("h1"), was.removesuffix("h1")) for was, _ in changed
    ]
    assert len(changed) == 1
    assert changed[0][1].endswith(f"{tmp_path}/checkout/h1")


def test_a_file_that_nobody_has_typed_renames_no_word(guest: RunningVm, tmp_path: Path) -> None:
    default = NamedFile("recordings", written=True, places=())
    assert run(guest, ["echo", "recordings", str(tmp_path)], default) == f"recordings {tmp_path}\n"


def test_a_default_that_the_guest_sees_elsewhere_is_named(guest: RunningVm, tmp_path: Path) -> None:
    """The caller's own recordings/ is shared, and not the folder that it is in: as where rocelab was installed."""
    default = NamedFile("recordings", written=True, places=(), option="--output")
    assert run(guest, ["echo", "x"], default) == "x\n"
    mine = tmp_path / "mine/recordings"
    mine.mkdir()
    guest = replace(guest, shares=(*guest.shares, Share("mine", mine, writable=True)))
    assert run(guest, ["echo", "x"], default) == f"x --output={mine}\n"
    assert run(guest, ["echo", "recordings"], NamedFile("recordings", written=True, places=(1,))) == f"{mine}\n"


def test_words_behind_two_dashes_are_the_nodes(guest: RunningVm, tmp_path: Path) -> None:
    (tmp_path / "else/f").write_text("")
    file = str(tmp_path / "else/f")
    assert run(guest, ["echo", "exec", "--", file], NamedFile(file)) == f"exec -- {file}\n"


def test_devices_and_what_is_not_there_are_the_guests(guest: RunningVm) -> None:
    words = ["echo", "/dev/null", "/no/where"]
    assert run(guest, words, result("/dev/null"), NamedFile("/no/where")) == "/dev/null /no/where\n"


def test_no_folder_to_write_to(guest: RunningVm) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*/mine/no for out: make it first"):
        run(guest, ["true"], result("no/out"))


@pytest.mark.parametrize("text", ["/sys/out", "/proc/out"])
def test_a_folder_that_takes_no_files_is_refused_before_anything_runs(guest: RunningVm, text: str) -> None:
    with pytest.raises(UsageError, match=f"cannot write {text}: .*: name another file"):
        run(guest, ["touch", "ran"], result(text))
    assert names(Path()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("text", ["out", "folder", "../else/out"])
def test_so_is_one_that_is_full_or_read_only(
    guest: RunningVm, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    Path("folder").mkdir()
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(UsageError, match=os.strerror(number)):
        run(guest, ["true"], result(text))


def test_nor_is_a_file_that_is_there_and_cannot_be_written(guest: RunningVm, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").write_text("mine")
    known = os.statvfs(".")
    for flag, free, said in ((os.ST_RDONLY, 5, "Read-only"), (0, 0, "No space left")):
        with monkeypatch.context() as there:
            there.setattr(os, "statvfs", lambda _, f=flag, b=free: SimpleNamespace(f_flag=f, f_bavail=b, f_frsize=1))
            with pytest.raises(UsageError, match=f"cannot write .*/out: {said}"):
                run(guest, ["true"], result("out"))
    assert os.statvfs(".").f_bsize == known.f_bsize
    assert Path("out").read_text() == "mine"


def test_the_room_is_the_least_of_all_results(guest: RunningVm, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("old").write_text("12345")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=0, f_bavail=10, f_frsize=100))
    for files, room in (([], None), ([result("old")], 1005), ([result("old"), result("new")], 1000)):
        with prepared(guest, ["true"], files, told.append) as made:
            assert made.room == room


def test_a_result_that_cannot_be_written(guest: RunningVm) -> None:
    def come_back() -> None:
        with prepared(guest, ["true"], [result("taken")], told.append) as made:
            Path(made.directory, "taken").touch()
            Path("taken").mkdir()

    with pytest.raises(OperationFailed, match=r"mine/taken cannot be written: Is a directory"):
        come_back()


def test_a_folder_of_the_call_is_none_for_what_is_to_stay(tmp_path: Path) -> None:
    assert handover.to_stay(tmp_path / "a" / ".." / "b") == tmp_path / "b"
    with pytest.raises(UsageError, match=r"^/home/me/runs is not shared with the VM"):
        handover.to_stay(handover.GUEST_CACHE / "calls" / "1" / "home/me/runs")


def test_a_read_only_folder_is_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY if path == tmp_path else 0))
    said = "cannot write .*/runs: Read-only file system: "
    with pytest.raises(UsageError, match=f"{said}name another folder with -o"):
        handover.to_stay(tmp_path / "a" / "runs")
    monkeypatch.setenv(handover.IN_VM, "1")
    with pytest.raises(UsageError, match=f"{said}record in recordings/ of the checkout"):
        handover.to_stay(tmp_path / "a/runs")
    (tmp_path / "a").mkdir()
    assert handover.to_stay(tmp_path / "a/runs") == tmp_path / "a/runs"
