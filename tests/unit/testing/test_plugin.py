"""The plug-in as pytest sees it, judged by runs of pytest: what it loads, shares, says and leaves alone."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from _pytest.pytester import Pytester, RunResult

pytest_plugins = ["pytester"]
ROOT: Final = Path(__file__).parents[3]
YAML: Final = "name: small\nnodes:\n  leaf1: {role: leaf}\n  h1: {role: host}\nlinks: [{ends: [h1, leaf1]}]\n"
BUILDS: Final = """
from pathlib import Path

import pytest

from lab.backends import lifecycle, registry
from lab.backends.backend import Fabric
from lab.backends.fabric_state import FabricState

LOG = Path(__file__).with_name("log")


def note(line):
    with LOG.open("a") as log:
        log.write(line + "\\n")


class Ready(FabricState):
    ready = True


BUILT = {}


def up(topology, backend):
    note(f"up {topology.name}")
    BUILT[topology.name] = Fabric(Ready(topology.name), topology, backend)
    return BUILT[topology.name], None


def again(name, waiting):
    note(f"again {name}")
    return BUILT[name]


lifecycle.up = up
lifecycle.open_fabric = again
lifecycle.down = lambda state: note(f"down {state.name}")
"""


@pytest.fixture
def tests(pytester: Pytester) -> Pytester:
    """A folder whose fabrics are built on paper only, and told of in its ``log``."""
    pytester.makefile(".yaml", small=YAML)
    pytester.makeconftest(BUILDS)
    return pytester


def run(pytester: Pytester, *words: str) -> RunResult:
    return pytester.runpytest_subprocess("-p", "no:rocelab", "-p", "lab.testing.plugin", *words)


def log(pytester: Pytester) -> list[str]:
    """What was built and taken down, with numbers in place of the process's own."""
    lines = (pytester.path / "log").read_text(encoding="utf-8").split()
    found = list(zip(lines[::2], lines[1::2], strict=True))
    names = list(dict.fromkeys(name for _, name in found))
    return [f"{did} {names.index(name)}" for did, name in found]


def test_it_is_installed_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = import_module(project["entry-points"]["pytest11"]["rocelab"])
    assert callable(module.pytest_sessionfinish)


def test_a_run_without_fabrics_imports_nothing_and_asserts_on_numbers_explain_themselves(pytester: Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.split(".")[0] == "lab"}
            assert ours == {"lab", "lab.testing", "lab.testing.plugin"}
            assert not {"numpy", "pydantic", "yaml", "rich", "typer"} & set(sys.modules)

        def test_plain():
            assert 1 == 2

        def test_count():
            from lab.testing.count import Count

            drops = Count(17, "drops of all ports", ["leaf1:swp6 queue3_drop_headroom_packets: 17"])
            assert drops == 0
        """
    )
    done = run(pytester)
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "E       assert 1 == 2",
            "E       assert 17 (drops of all ports) == 0",
            "E         leaf1:swp6 queue3_drop_headroom_packets: 17",
        ]
    )


def test_each_test_has_a_fabric_of_its_own_unless_it_says_otherwise(tests: Pytester) -> None:
    tests.makepyfile(
        test_a="""
        import pytest

        @pytest.mark.rocelab(topology="small.yaml")
        @pytest.mark.parametrize("number", [1, 2])
        def test_own(fabric, number):
            assert fabric.name.startswith("small-t") and len(fabric.name) <= 24

        @pytest.mark.rocelab(topology="small.yaml", scope="session")
        def test_long(fabric):
            pass
        """,
        test_b="""
        import pytest

        pytestmark = pytest.mark.rocelab(topology="small.yaml", scope="module")

        def test_one(fabric):
            pass

        def test_two(fabric):
            pass

        @pytest.mark.rocelab(rdma=False)
        def test_other(fabric):
            assert not any(node.rdma for node in fabric.topology.nodes)

        @pytest.mark.rocelab(scope="session")
        def test_long(fabric):
            pass
        """,
    )
    run(tests, "--strict-markers").assert_outcomes(passed=7)
    assert log(tests) == [
        "up 0", "down 0", "up 1", "down 1", "up 2",  # two of their own, and the session's
        "up 3", "again 3", "up 4", "again 2",  # the module's, one without RDMA, and the session's again
        "down 4", "down 3", "down 2",
    ]  # fmt: skip


def test_a_file_is_looked_for_beside_the_test_and_an_option_stands_in(tests: Pytester) -> None:
    folder = tests.mkpydir("deeper")
    (folder / "own.yaml").write_text(YAML.replace("small", "own"), encoding="utf-8")
    (folder / "test_it.py").write_text(
        """
import pytest

@pytest.mark.rocelab(topology="own.yaml")
def test_beside(fabric):
    assert fabric.name.startswith("own-")

def test_option(fabric):
    assert fabric.name.startswith("small-")

@pytest.mark.rocelab(topology={"generate": {"shape": "leaf-spine", "spines": 1, "leaves": 2}})
def test_generated(fabric):
    assert [node.name for node in fabric.topology.hosts] == ["h1", "h2", "h3", "h4"]
""",
        encoding="utf-8",
    )
    run(tests, "--rocelab-topology", "small.yaml", "--rocelab-scope", "module").assert_outcomes(passed=3)
    assert log(tests)[:3] == ["up 0", "up 1", "up 2"]


WRONG: Final = {
    "": "the test names no topology: write @pytest.mark.rocelab(topology=*",
    'topolgy="small.yaml"': "marker rocelab has no 'topolgy': did you mean 'topology'?",
    '"small.yaml"': "marker rocelab: 'small.yaml' has no name: write *",
    'scope="class"': "there is no scope 'class': choose function, module, session",
    "topology=3": "marker rocelab: topology is neither a file nor a mapping: *",
    'topology="none.yaml"': "there is no file none.yaml: *",
    'topology={"nodes": {"x": {"role": "leef"}}}': "<topology of test_*::test_6>:1: nodes.x.role: *",
}


def test_what_cannot_be_is_one_line(tests: Pytester) -> None:
    written = (
        f"@pytest.mark.rocelab({marker})\ndef test_{number}(fabric):\n    pass\n"
        for number, marker in enumerate(WRONG)
    )
    tests.makepyfile("import pytest\n\n" + "\n".join(written))
    done = run(tests)
    done.assert_outcomes(errors=len(WRONG))
    done.stdout.fnmatch_lines([told.replace("[", "[[]") for told in WRONG.values()])
    assert "Traceback" not in done.stdout.str()
    assert "lab/testing" not in done.stdout.str()


def test_what_the_machine_lacks_skips_or_fails_where_it_is_required(tests: Pytester) -> None:
    lacks = "def lacks(*_):\n    raise EnvironmentLacks('no RDMA', 'use --vm')\n\nlifecycle.up = lacks\n"
    tests.makeconftest(f"{BUILDS}\nfrom lab.errors import EnvironmentLacks\n\n{lacks}")
    tests.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.rocelab(topology="small.yaml")

        @pytest.fixture
        def required(monkeypatch):
            monkeypatch.setenv("ROCELAB_REQUIRE", "all")

        @pytest.fixture
        def optional(monkeypatch):
            monkeypatch.delenv("ROCELAB_REQUIRE", raising=False)

        def test_optional(optional, fabric):
            pass

        def test_required(required, fabric):
            pass
        """
    )
    done = run(tests, "-ra")
    done.assert_outcomes(skipped=1, errors=1)
    done.stdout.fnmatch_lines(["*no RDMA: use --vm*"])


def test_fixtures_say_what_they_are(pytester: Pytester) -> None:
    shown = run(pytester, "--fixtures").stdout.str()
    for name in ("fabric", "fault", "recording", "scenario"):
        assert f"\n{name} -- " in shown
