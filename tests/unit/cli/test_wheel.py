"""The wheel, in an empty virtual environment outside the checkout: what people have who install rocelab."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.installed import build, install, run

ROOT = Path(__file__).parents[3]
VECTOR = ROOT / "tests/unit/wire/vectors/rxe-ipv4.pcapng"
MODULES = {f"lab/{path.relative_to(ROOT / 'lab')}" for path in (ROOT / "lab").rglob("*.py")}
_PATTERNS = (
    "docs/**/*.md", "docs/*.png", "docs/examples/**/*.y*ml", "report/assets/*", "**/*.bpf.c", "**/*.h",
    "**/*.bpf-*.o", "**/*.layout.json", "py.typed", "cli/emulated/bin/*", "telemetry/alerts/*.yml",
    "telemetry/alerts/*.json", "jobs/traces/*.proto",
)  # fmt: skip
_CARRIED = ("topologies/*", "scenarios/*.py", "scripts/guest/**/*", "scripts/requirements-dev.lock")
DATA = {
    *(f"lab/{path.relative_to(ROOT / 'lab')}" for each in _PATTERNS for path in (ROOT / "lab").glob(each)),
    *(f"lab/shipped/{path.relative_to(ROOT)}" for each in _CARRIED for path in ROOT.glob(each) if path.is_file()),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and what it depends on."""
    return install(wheel, tmp_path_factory.mktemp("env") / "env").parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the reader is: nowhere near the checkout."""
    return tmp_path


def test_it_carries_all_modules_objects_pages_and_examples(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("rocelab-")}
        assert names == MODULES | DATA
        for program in ("lab/shipped/scripts/guest/provision", "lab/cli/emulated/bin/ethtool"):
            assert archive.getinfo(program).external_attr >> 16 & 0o100, f"{program} is run"


def test_it_is_itself_that_is_run(environment: Path, folder: Path) -> None:
    where = run(environment / "bin" / "python", "-c", "import lab; print(lab.__file__)", where=folder)
    assert Path(where.strip()).is_relative_to(environment)


def test_it_works_without_a_checkout(environment: Path, folder: Path) -> None:
    def rocelab(*words: object, expect: int = 0) -> str:
        return run(environment / "bin" / "rocelab", *words, where=folder, expect=expect)

    assert "Break an AI fabric on your laptop" in rocelab("--help")
    rocelab("topology", "new", "leaf-spine", "-o", "mine.yaml")
    assert "mine.yaml: ok, 14 nodes and 16 links" in rocelab("topology", "check", "mine.yaml")
    rocelab("examples", "copy")
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*")} == {
        each["name"] for each in json.loads(rocelab("examples", "ls", "--json"))
    }
    rocelab("export", "containerlab", "topologies/incast.yaml", "-o", "out")
    assert "name: incast\n" in rocelab("import", "containerlab", "out/clab.yml")
    assert "# Containerlab and Kubernetes" in rocelab("docs", "containerlab")
    assert "BTH" in rocelab("dissect", VECTOR)
    rocelab("scenario", "lint")
    assert "pfc-storm" in rocelab("scenario", "ls")


def test_the_vm_is_built_from_it_and_shares_a_copy_of_it_alone(environment: Path, folder: Path) -> None:
    program = (
        "from lab.vm.image.recipe import checkout, current_recipe\n"
        "print(current_recipe().hash, checkout(), checkout(), sep='\\n')\n"
    )
    cached = f"import os; os.environ['XDG_CACHE_HOME'] = {str(folder)!r}\n"
    hashed, shared, again = run(environment / "bin" / "python", "-c", cached + program, where=folder).split()
    ours = run(sys.executable, "-c", program, where=ROOT).split()
    assert hashed == ours[0], "an image of the checkout is as good"
    assert shared == again
    assert [path.name for path in Path(shared).iterdir()] == ["lab"]
    copied = {f"{path.relative_to(shared)}" for path in Path(shared).rglob("*") if path.is_file()}
    assert copied == MODULES | DATA
    assert os.access(Path(shared, "lab/cli/emulated/bin/ethtool"), os.X_OK)
    assert [path.name for path in Path(shared).parent.iterdir()] == [Path(shared).name]
    assert ours[1] == str(ROOT)
