"""Scenarios as files: found by name, and told what is wrong with their shape."""

from pathlib import Path

import pytest

from lab.errors import InvalidInput, UsageError
from lab.model.load import read_topology
from lab.scenario import library
from tests.vm.incidents import scenario_texts

GOOD = '''"""Nothing happens. And that is all.

Story
    Given nothing

Numbers
    none
"""

from lab.scenario.api import Parameters, Scenario, expect


class Params(Parameters):
    """None."""


def run(stage, p):
    pass


def true(rec, p):
    """It is."""
    return expect(True, "always")


SCENARIO = Scenario("still-life", "incast.yaml", Params, run, (true,))
'''


def written(folder: Path, text: str, name: str = "still_life") -> Path:
    (folder / f"{name}.py").write_text(text)
    return folder


def told(folder: Path) -> str:
    return "\n".join(map(str, library.lint("still-life", folder)))


@pytest.mark.parametrize("name", library.names())
def test_ours_have_the_shape(name: str) -> None:
    assert library.lint(name) == []
    scenario = library.find(name)
    assert library.topology_of(scenario).is_file()
    assert scenario.title
    assert scenario.parameters()


@pytest.mark.parametrize("name", library.names())
def test_the_text_that_lists_of_tests_read_agrees_with_the_module(name: str) -> None:
    scenario = library.find(name)
    assert scenario_texts.fabric_of(name) == read_topology(library.topology_of(scenario)).name
    assert scenario_texts.has_answer(name) is (scenario.answer is not None)


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    assert library.names(tmp_path) == ["still-life"]
    assert library.find("still-life", tmp_path).title == "Nothing happens. And that is all"
    assert told(tmp_path) == ""


@pytest.mark.parametrize(
    ("there", "instead", "line"),
    [
        ("Story\n", "Tale\n", "docstring: has no Story; write a line 'Story'"),
        ('"still-life", "incast', '"dead-nature", "incast', "SCENARIO.name: is 'dead-nature'; call it 'still-life'"),
        ('    """It is."""\n', "", "true: says not what is true; give it a docstring"),
        ("(true,)", "()", "SCENARIO.checks: is empty; a story that nothing can contradict is none"),
        ('    """None."""\n', '    """None."""\n\n    x: int\n', "Params.x: is not explained"),
        ('    """None."""\n', '    """None."""\n\n    x: int\n', "Params.x: has no default"),
        ("    pass\n", "    pass\n" + "#\n" * 180, "lines; shorten it to 180"),
        ("SCENARIO = ", "OTHER = ", "SCENARIO: is missing; end with SCENARIO = Scenario(...)"),
        ("(true,)", "(true)", "SCENARIO.checks: has a wrong type; write functions: (lossless,)"),
        ('Scenario("still-life"', "Scenario(7", "SCENARIO.name: has a wrong type; write a text"),
        ("Params, run", "Params(), run", "SCENARIO.parameters: has a wrong type; write a class of Parameters"),
        ("(true,))", "(true,), answer='leaf1')", "SCENARIO.answer: has a wrong type; write StoryAnswer(...), with"),
        ("(true,))", "(true,), captures=('h1--leaf1'))", "SCENARIO.captures: has a wrong type; write links: ("),
        ("    pass\n", "    pas s\n", "SyntaxError: "),
        ("def true", "raise ValueError('two\\nlines')\n\n\ndef true", "ValueError: two lines; mend it"),
        ("def true", "1 / 0\n\n\ndef true", "ZeroDivisionError: division by zero; mend it"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, there: str, instead: str, line: str) -> None:
    assert there in GOOD
    assert line in told(written(tmp_path, GOOD.replace(there, instead)))


def test_an_error_has_its_line(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("def true", "1 / 0\n\n\ndef true"))
    with pytest.raises(InvalidInput) as wrong:
        library.find("still-life", tmp_path)
    assert wrong.value.problems[0].line == GOOD.splitlines().index("def true(rec, p):") + 1


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no scenario 'pfc-strom': did you mean 'pfc-storm'"):
        library.find("pfc-strom")
    with pytest.raises(UsageError, match="there is no scenario 'xyz': rocelab scenario ls lists all"):
        library.find("xyz")
    with pytest.raises(UsageError, match=r"no folder .*: scenarios are Python files in one: --path DIR"):
        library.names(tmp_path / "nowhere")
    written(tmp_path, GOOD.replace("incast.yaml", "outcast.yaml"))
    with pytest.raises(UsageError, match=r"scenario still-life: no file outcast.yaml"):
        library.topology_of(library.find("still-life", tmp_path), tmp_path)
