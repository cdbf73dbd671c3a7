"""Bytecode for the guest, compiled by the image's interpreter, and imports from the archive of all of it.

tests/fabric/guest runs the real interpreter.
"""

from __future__ import annotations

import importlib
import marshal
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.guest import archived_modules
from lab.vm.image import host_bytecode
from lab.vm.image.arch import ARCHES
from lab.vm.image.recipe import Image

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LISTING = """\
  11499  100755 (1)      0      0   225600 10-Aug-2026 12:06 ld-linux-x86-64.so.2
  11688  100755 (1)      0      0  2003408 10-Aug-2026 12:06 libc.so.6
  11850  100644 (1)      0      0   952512 10-Aug-2026 12:06 libm.so.6
  11732  120777 (7)      0      0       18 10-Aug-2026 12:06 libexpat.so.1
  11733  100644 (1)      0      0   182488 10-Aug-2026 12:06 libexpat.so.1.13.0
  11735  100644 (1)      0      0    14504 10-Aug-2026 12:06 libexpatw.so.1.13.0
  12038  100644 (1)      0      0   125376  1-Nov-2026 05:57 libz.so.1.3.1
  12039  100644 (1)      0      0   125376  1-Nov-2026 05:57 libzstd.so.1.5.7
"""
LOADER = f"""\
#!/bin/sh
unset PYTHONHOME
shift 3
exec {sys.executable} "$@"
"""
"""What the guest's loader is called with, and this Python for the guest's."""
DEBUGFS: Final = """\
#!/bin/sh
[ "$1" = -f ] || exec cat {listing}
while read -r what _ target; do
    [ "$what" != dump ] || : >"$target"
done
"""
"""A debugfs that has no room for the content of files."""


def test_the_files_behind_the_links_are_copied_under_the_names_that_the_loader_looks_for() -> None:
    said = list(host_bytecode.extraction(LISTING, LIBRARIES, Path("/made")))
    assert said == [
        "dump /usr/bin/python3.13 /made/bin/python",
        "rdump /usr/lib/python3.13 /made/lib",
        f"dump {LIBRARIES}/ld-linux-x86-64.so.2 /made/lib/ld-linux-x86-64.so.2",
        f"dump {LIBRARIES}/libc.so.6 /made/lib/libc.so.6",
        f"dump {LIBRARIES}/libm.so.6 /made/lib/libm.so.6",
        f"dump {LIBRARIES}/libexpat.so.1.13.0 /made/lib/libexpat.so.1",
        f"dump {LIBRARIES}/libz.so.1.3.1 /made/lib/libz.so.1",
    ]


def image_with_interpreter(folder: Path) -> Image:
    image = Image(folder)
    loader = image.folder / "python/lib/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text(LOADER)
    loader.chmod(0o755)
    return image


def test_what_is_new_or_has_changed_is_compiled_into_the_guests_cache(tmp_path: Path) -> None:
    image, checkout = image_with_interpreter(tmp_path / "image"), tmp_path / "checkout"
    module = checkout / "lab/module.py"
    module.parent.mkdir(parents=True)
    module.write_text("answer = 42\n")
    (checkout / "elsewhere.py").write_text("answer = 42\n")

    def compiled() -> list[Path]:
        host_bytecode.compile_modules(image, ARCHES["x86_64"], checkout)
        return list(image.guest_cache.rglob("*.pyc"))

    (made,) = compiled()
    assert made.parent == image.guest_cache / "bytecode" / module.parent.relative_to("/")
    before = made.stat().st_mtime_ns, made.read_bytes()
    assert compiled() == [made]
    assert (made.stat().st_mtime_ns, made.read_bytes()) == before, "nothing has changed"
    module.write_text("answer = 43 + 1\n")
    os.utime(module, (2_000_000_000, 2_000_000_000))  # compileall looks at the second only
    assert compiled() == [made]
    assert made.read_bytes() != before[1]


def test_an_image_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """The guest compiles for itself then."""
    image = Image(tmp_path)
    image.disk.write_bytes(bytes(4096))
    host_bytecode.compile_modules(image, ARCHES["x86_64"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["root.ext4"]


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = image_with_interpreter(tmp_path / "image")
    (tmp_path / "compileall.py").write_text("open('ran', 'w').close()")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/module.py").touch()
    monkeypatch.chdir(tmp_path)
    host_bytecode.compile_modules(image, ARCHES["x86_64"], tmp_path)
    assert list(image.guest_cache.rglob("module.*.pyc"))
    assert not (tmp_path / "ran").exists()


def test_root_does_not_run_an_interpreter_that_others_can_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sudo(8), the cache can be in a user's home."""
    image = image_with_interpreter(tmp_path / "image")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/module.py").touch()
    image.folder.chmod(0o777)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    host_bytecode.compile_modules(image, ARCHES["x86_64"], tmp_path)
    assert not image.guest_cache.exists()


@pytest.mark.parametrize("listing", ["", LISTING])
def test_an_incomplete_copy_is_removed_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str
) -> None:
    """On a full disk, files are empty or missing, and debugfs exits with 0."""
    image = Image(tmp_path / "image")
    image.folder.mkdir()
    (tmp_path / "listing").write_text(listing)
    debugfs = tmp_path / "debugfs"
    debugfs.write_text(DEBUGFS.format(listing=tmp_path / "listing"))
    debugfs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    host_bytecode.compile_modules(image, ARCHES["x86_64"], tmp_path)
    assert list(image.folder.iterdir()) == []


ANSWER: Final = """
import sys
from pathlib import Path

import lab.other

def main() -> None:
    print(*sys.argv, Path(__file__).name, lab.other.KNOWN)
"""


class Guest:
    """A checkout with a few modules, and the cache of a guest that reads it; this Python is the guest's."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.cache = folder / "checkout", folder / "cache"
        for name in ("lab", "lab/vm", "lab/vm/guest"):
            self.write(f"{name}/__init__.py", "")
        shutil.copy(archived_modules.__file__, self.checkout / "lab/vm/guest/archived_modules.py")
        self.write("lab/answer.py", ANSWER)
        self.write("lab/other.py", "KNOWN = 1\n")
        self.archive = self.cache / self.checkout.relative_to("/") / "modules"

    def write(self, name: str, text: str) -> None:
        file = self.checkout / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def compile(self) -> None:
        """As the guest's Python does."""
        for source in self.checkout.rglob("*.py"):
            compiled = self.cache / source.relative_to("/").with_suffix(f".{sys.implementation.cache_tag}.pyc")
            py_compile.compile(str(source), str(compiled), doraise=True)

    def pack(self) -> str:
        """The fingerprint of the code in the archive."""
        host_bytecode.pack_modules(self.cache, self.checkout)
        return self.archive.read_bytes()[:16].decode()

    def run(self, code: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.cache), "PYTHONPATH": str(self.checkout)}
        command = [sys.executable, "-P", "-m", "lab.vm.guest.archived_modules", code, "lab.answer", "word"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout or done.stderr.splitlines()[-1]


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    monkeypatch.setattr(host_bytecode, "PYTHON", f"3.{sys.version_info.minor}")
    made = Guest(tmp_path)
    made.compile()
    return made


def test_modules_of_the_archive_need_no_files(guest: Guest) -> None:
    code = guest.pack()
    for name in ("answer", "other"):
        (guest.checkout / f"lab/{name}.py").unlink()
    assert guest.run(code) == (0, "lab.answer word answer.py 1\n")


def test_an_archive_of_other_code_is_not_used(guest: Guest) -> None:
    """The checkout has changed since: its own modules are imported."""
    guest.pack()
    guest.write("lab/other.py", "KNOWN = 'changed'\n")
    assert guest.run(of_code(guest.checkout / "lab")) == (0, "lab.answer word answer.py changed\n")


@pytest.mark.parametrize("content", [b"", b"damaged", bytes(8)])
def test_without_a_whole_archive_modules_are_imported_as_usual(guest: Guest, content: bytes) -> None:
    code = guest.pack()
    guest.archive.write_bytes(code.encode() + content if content else b"")
    assert guest.run(code) == (0, "lab.answer word answer.py 1\n")
    guest.archive.unlink()
    assert guest.run(code) == (0, "lab.answer word answer.py 1\n")


def test_the_archive_is_written_again_only_for_other_code(guest: Guest) -> None:
    code = guest.pack()
    before = guest.archive.stat().st_ino
    assert (guest.pack(), guest.archive.stat().st_ino) == (code, before)
    guest.write("lab/other.py", "KNOWN = 'changed'\n")
    guest.compile()
    assert guest.pack() != code
    assert guest.run(guest.pack()) == (0, "lab.answer word answer.py changed\n")
    assert [file.name for file in guest.archive.parent.iterdir()] == ["modules", "lab"]


def test_bytecode_of_an_older_file_is_left_out(guest: Guest) -> None:
    """Its import is as slow as before, and right."""
    guest.write("lab/other.py", "KNOWN = 'changed'\n")
    code = guest.pack()
    assert b"lab/answer.py" in guest.archive.read_bytes()
    assert b"lab/other.py" not in guest.archive.read_bytes()
    assert guest.run(code) == (0, "lab.answer word answer.py changed\n")


def test_the_guest_knows_the_code_of_its_archive(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the archive's beginning, and not from a thousand files."""
    monkeypatch.setattr(archived_modules, "_CHECKOUT", guest.checkout)
    monkeypatch.setattr(sys, "pycache_prefix", str(guest.cache))
    assert archived_modules.archived_code() == ""
    guest.pack()
    assert archived_modules.archived_code() == of_code(guest.checkout / "lab")
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert archived_modules.archived_code() == ""


def test_a_module_has_the_name_and_the_data_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file itself is read when somebody asks for its source."""
    code = {"archived/__init__.py": b"", "archived/page.py": b"import importlib.resources as r\nKNOWN = r"}
    (tmp_path / "archived").mkdir()
    (tmp_path / "archived/page.md").write_text("a page")
    modules = {name: marshal.dumps(compile(text, name, "exec")) for name, text in code.items()}
    finder = archived_modules.ArchiveFinder(modules, tmp_path)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    page = importlib.import_module("archived.page")
    assert page.__file__ == str(tmp_path / "archived/page.py")
    assert (page.KNOWN.files("archived") / "page.md").read_text() == "a page"
    assert importlib.util.find_spec("archived.none") is None
    for name in ("archived.page", "archived"):
        del sys.modules[name]
