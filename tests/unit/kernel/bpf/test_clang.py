"""Objects are shipped, or compiled once: again only when a source, a header, a flag or the compiler changes."""

import platform
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import lab
from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.bpf import clang

STAND_IN = """#!/bin/sh
# Notes how it was called, and writes its last argument.
echo "$@" >> {calls}
for output; do :; done
{body}
"""


@dataclass(frozen=True)
class Bench:
    """A source and its headers, and a stand-in for clang that notes its calls."""

    source: Path
    headers: Path
    compiler: Path
    calls: Path

    def behave(self, body: str) -> None:
        self.compiler.write_text(STAND_IN.format(calls=self.calls, body=body))
        self.compiler.chmod(0o755)

    def compile(self) -> Path:
        return clang.compile_bpf(self.source, self.headers)

    def count(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for folder in ("bin", "source", "include"):
        (tmp_path / folder).mkdir()
    bench = Bench(
        source=tmp_path / "source/port.bpf.c",
        headers=tmp_path / "include",
        compiler=tmp_path / "bin/clang-19",
        calls=tmp_path / "calls",
    )
    bench.source.write_text("int x;\n")
    (bench.headers / "port.h").write_text("int y;\n")
    bench.behave('echo object > "$output"')
    monkeypatch.setenv("PATH", str(bench.compiler.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return bench


def test_what_has_not_changed_is_not_compiled_again(bench: Bench) -> None:
    built = bench.compile()
    assert built.read_text() == "object\n"
    assert built.name.startswith("port.bpf-")
    assert bench.compile() == built
    assert bench.count() == 1
    assert list(built.parent.iterdir()) == [built]


@pytest.mark.parametrize("name", ["source/port.bpf.c", "source/beside.h", "include/port.h", "include/new.h"])
def test_a_source_or_header_that_changes_is_another_object(bench: Bench, tmp_path: Path, name: str) -> None:
    before = bench.compile()
    (tmp_path / name).write_text("int z;\n")
    assert bench.compile() != before
    assert bench.count() == 2
    assert before.exists()


def test_another_compiler_makes_another_object(bench: Bench) -> None:
    before = bench.compile()
    bench.behave('echo better > "$output"')
    assert bench.compile() != before


def test_it_is_compiled_with_its_headers_and_without_its_place(bench: Bench) -> None:
    bench.compile()
    said = bench.calls.read_text()
    assert f"-ffile-prefix-map={bench.source.parent}/= -I {bench.headers}" in said
    assert f"-idirafter /usr/include/{platform.machine()}-linux-gnu -c {bench.source} -o " in said
    assert "-target bpf" in said


def test_what_is_shipped_needs_no_compiler_until_a_source_changes(bench: Bench) -> None:
    ready = clang.shipped(bench.source, bench.headers)
    assert ready.parent == bench.source.parent
    ready.write_text("shipped\n")
    bench.compiler.unlink()
    assert bench.compile() == ready
    (bench.headers / "port.h").write_text("int z;\n")
    with pytest.raises(EnvironmentLacks, match="no compiler of BPF programs"):
        bench.compile()


SOURCES = sorted(Path(lab.__path__[0]).rglob("*.bpf.c"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_package_ships_the_objects_of_its_sources_as_they_are(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this fails, sources were changed: ``python -m tests.vm.build_objects``."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clang.compile_bpf(source).read_bytes()[:4] == b"\x7fELF"
    assert list(source.parent.glob(f"{source.stem}-*.o")) == [clang.shipped(source)]


def test_the_wheel_has_them(tmp_path: Path) -> None:
    project = Path(lab.__path__[0]).parent
    (wheel,) = WheelBuilder(str(project)).build(directory=str(tmp_path), versions=["standard"])
    shipped = {clang.shipped(source).relative_to(project).as_posix() for source in SOURCES}
    assert len(shipped) == 4
    assert shipped <= set(zipfile.ZipFile(wheel).namelist())


def test_an_error_shows_what_the_compiler_says_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.behave('echo half > "$output"; echo "port.bpf.c:1:1: error: no" >&2; exit 1')
    with pytest.raises(OperationFailed, match=r"port\.bpf\.c does not compile:\nport\.bpf\.c:1:1: error: no$"):
        bench.compile()
    assert list((tmp_path / "cache/rocelab/bpf").iterdir()) == []


def test_headers_of_libbpf_that_are_missing_are_named(bench: Bench) -> None:
    bench.behave("""echo "x.h:3:10: fatal error: 'bpf/bpf_helpers.h' file not found" >&2; exit 1""")
    with pytest.raises(EnvironmentLacks, match="no headers of libbpf: apt-get install clang-19 libbpf-dev"):
        bench.compile()


def test_without_a_compiler_the_packages_are_named(bench: Bench) -> None:
    bench.compiler.unlink()
    with pytest.raises(EnvironmentLacks, match="no compiler of BPF programs: apt-get install clang-19 libbpf-dev"):
        bench.compile()


@pytest.mark.parametrize("other", ["clang-22", "clang-17"])
def test_the_compiler_that_the_tests_run_with_comes_before_any_other(bench: Bench, other: str) -> None:
    bench.compiler.with_name(other).write_bytes(bench.compiler.read_bytes())
    bench.compiler.with_name(other).chmod(0o755)
    assert clang.find_compiler() == bench.compiler


def test_a_newer_compiler_will_do(bench: Bench) -> None:
    newer = bench.compiler.rename(bench.compiler.with_name("clang-22"))
    assert clang.find_compiler() == newer
