"""What a call takes along and brings back; the guest is a program of this machine, in the folder that it is given."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import OperationFailed, UsageError
from lab.vm import handover
from lab.vm.handover import NamedFile, prepared
from lab.vm.qemu import Share
from lab.vm.recipe import Image
from lab.vm.state import Running


@pytest.fixture
def guest(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """It shares tmp_path/checkout; the caller is in tmp_path/mine."""
    for name in ("checkout", "mine", "else"):
        (tmp_path / name).mkdir()
    image = Image(tmp_path / "image")
    monkeypatch.setattr(handover, "GUEST_CACHE", image.guest_cache)
    monkeypatch.chdir(tmp_path / "mine")
    shares = (Share("checkout", tmp_path / "checkout"), Share("cache", image.guest_cache))
    return replace(running, image=image, shares=shares)


def run(guest: Running, words: Sequence[str], *files: NamedFile) -> str:
    """Run a command as the guest would, and return its output."""
    with prepared(guest, words, files) as made:
        assert not made.directory.startswith(str(Path.cwd())) or Path.cwd().name == "checkout"
        return subprocess.run(made.words, cwd=made.directory, check=True, capture_output=True, text=True).stdout


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("text", ["f.yaml", "./f.yaml", "sub/f.yaml", "../else/f.yaml", "{0}/else/f.yaml"])
def test_a_file_is_read_wherever_it_is(guest: Running, tmp_path: Path, text: str) -> None:
    text = text.format(tmp_path)
    Path("sub").mkdir()
    Path(text).write_text("mine")
    assert run(guest, ["cat", text], NamedFile(text)) == "mine"
    assert run(guest, ["echo", text], NamedFile(text)).strip().endswith(text.removeprefix("../"))


def test_relative_names_stay_as_they_were_typed(guest: Running) -> None:
    Path("f.yaml").write_text("mine")
    assert run(guest, ["echo", "f.yaml", "../else/g"], NamedFile("f.yaml"), NamedFile("../else/g")) == (
        "f.yaml ../else/g\n"
    )


@pytest.mark.parametrize("word", ["{}", "-o{}", "--output={}"])
@pytest.mark.parametrize("text", ["out.txt", "sub/out.txt", "../else/out.txt", "{0}/else/out.txt"])
def test_what_is_written_comes_back(guest: Running, tmp_path: Path, text: str, word: str) -> None:
    text = text.format(tmp_path)
    Path("sub").mkdir()
    script = 'v=${1#--output=}; echo result > "${v#-o}"'
    run(guest, ["sh", "-c", script, "sh", word.format(text)], NamedFile(text, written=True))
    assert Path(text).read_text() == "result\n"


def test_from_a_shared_folder_too(guest: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "checkout")
    out = str(tmp_path / "else/out")
    Path("in").write_text("mine")
    assert run(guest, ["pwd"]) == f"{tmp_path}/checkout\n"
    run(guest, ["cp", "in", out], NamedFile("in"), NamedFile(out, written=True))
    assert Path(out).read_text() == "mine"


def test_a_shared_link_is_named_by_what_it_leads_to(
    guest: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest sees that it is a link, and not where to."""
    monkeypatch.chdir(tmp_path / "checkout")
    Path("real.yaml").touch()
    Path("link.yaml").symlink_to("real.yaml")
    assert run(guest, ["echo", "link.yaml"], NamedFile("link.yaml")) == f"{tmp_path}/checkout/real.yaml\n"
    assert run(guest, ["echo", "real.yaml"], NamedFile("real.yaml")) == "real.yaml\n"


def test_a_shared_file_is_read_in_its_place(guest: Running, tmp_path: Path) -> None:
    (tmp_path / "checkout/f").write_text("shared")
    assert run(guest, ["echo", "../checkout/f"], NamedFile("../checkout/f")) == f"{tmp_path}/checkout/f\n"


def test_more_than_was_named_comes_back_from_here_and_of_elsewhere_only_what_was_named(
    guest: Running, tmp_path: Path
) -> None:
    out = str(tmp_path / "else/ring.pcapng")
    script = 'echo 1 > part; mkdir new; echo 2 > new/deep; cd "$(dirname $1)"; touch ring-00001.pcapng other; mkdir x'
    run(guest, ["sh", "-c", script, "sh", out], NamedFile(out, written=True))
    assert (Path("part").read_text(), Path("new/deep").read_text()) == ("1\n", "2\n")
    assert names(tmp_path / "else") == ["ring-00001.pcapng"]


def test_what_was_only_read_is_left_alone_and_what_was_changed_comes_back(guest: Running) -> None:
    for name in ("read", "changed"):
        Path(name).write_text("old")
    Path("read").chmod(0o400)
    before = Path("read").stat()
    run(guest, ["sh", "-c", "cat read; echo new > changed"], NamedFile("read"), NamedFile("changed"))
    assert Path("read").stat().st_mtime_ns == before.st_mtime_ns
    assert Path("changed").read_text() == "new\n"


def test_links_and_pipes_of_the_guest_stay_behind(guest: Running, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    run(guest, ["sh", "-c", f"ln -s {tmp_path}/secret link; ln -s {tmp_path} folder; mkfifo pipe; echo 1 > file"])
    assert names(Path()) == ["file"]


def test_what_only_the_guest_knows_to_be_a_link_stays_behind(guest: Running) -> None:
    """QEMU makes a plain file of it, and an attribute that says what it is (lab/vm/walls.py)."""
    script = (
        "import os; open('link', 'w').write('/etc/shadow'); open('file', 'w').close(); "
        r"os.setxattr('link', 'user.virtfs.mode', b'\xff\xa1\0\0')"
    )
    run(guest, [sys.executable, "-c", script])
    assert names(Path()) == ["file"]


def test_results_come_back_of_a_command_that_failed(guest: Running) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(guest, ["sh", "-c", "echo part > out; exit 1"])
    assert Path("out").read_text() == "part\n"


def test_nothing_is_left_and_what_killed_callers_left_is_taken_away(guest: Running) -> None:
    calls = guest.guest_cache / "calls"
    (calls / "killed/tmp").mkdir(parents=True)
    with prepared(guest, ["true"], ()):
        (mine,) = calls.iterdir()
        assert mine.name != "killed"
        with prepared(guest, ["true"], ()):
            assert mine in calls.iterdir()
    assert not list(calls.iterdir())


def test_words_behind_two_dashes_are_the_nodes(guest: Running, tmp_path: Path) -> None:
    (tmp_path / "else/f").write_text("")
    file = str(tmp_path / "else/f")
    assert run(guest, ["echo", "exec", "--", file], NamedFile(file)) == f"exec -- {file}\n"


def test_devices_and_what_is_not_there_are_the_guests(guest: Running) -> None:
    words = ["echo", "/dev/null", "/no/where"]
    assert run(guest, words, NamedFile("/dev/null", written=True), NamedFile("/no/where")) == "/dev/null /no/where\n"


def test_no_folder_to_write_to(guest: Running) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*/mine/no for out: make it first"):
        run(guest, ["true"], NamedFile("no/out", written=True))


def test_a_result_that_cannot_be_written(guest: Running) -> None:
    Path("taken").mkdir()
    with pytest.raises(OperationFailed, match=r"mine/taken cannot be written: Is a directory"):
        run(guest, ["sh", "-c", "echo 1 > taken"])


def test_a_folder_of_the_call_is_none_for_what_is_to_stay(tmp_path: Path) -> None:
    assert handover.to_stay(tmp_path / "a" / ".." / "b") == tmp_path / "b"
    with pytest.raises(UsageError, match="runs is not shared with the VM"):
        handover.to_stay(handover.GUEST_CACHE / "calls" / "1" / "runs")
