"""Documentation, help and messages are plain technical English: short sentences, none of the project's old idioms."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import typer
from typer.core import TyperGroup

from lab.cli.app import app
from lab.scenario import library
from tests.sentences import Sentence, code_blocks, messages, paragraphs, sentences, split, story

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "lab" / "docs").glob("*.md"))]
MODULES: Final = sorted((ROOT / "lab").rglob("*.py"))
"""Pages that are still to be rewritten; this set only shrinks."""


def page_faults(text: str) -> list[str]:
    """Every sentence and code block of a page that breaks a rule."""
    words = [str(sentence) for sentence in sentences(text) if sentence.faults()]
    return words + [fault for block in code_blocks(text) for fault in block.faults()]


def helps() -> dict[str, list[str]]:
    """Every command's help texts: its own, and its parameters'."""
    found: dict[str, list[str]] = {}
    context = typer.Context(typer.main.get_command(app))

    def visit(path: tuple[str, ...], command: object) -> None:
        assert hasattr(command, "params")
        texts = [getattr(command, "help", None), *(getattr(each, "help", None) for each in command.params)]
        found[" ".join(path)] = [text for text in texts if text]
        if isinstance(command, TyperGroup):
            for name in command.list_commands(context):
                visit((*path, name), command.get_command(context, name))

    visit(("rocelab",), typer.main.get_command(app))
    return found


def help_faults(text: str) -> list[str]:
    """Every sentence of a help text that breaks a rule; a colon introduces an example or a list."""
    parts = (part for paragraph in text.split("\n\n") for part in paragraph.split(": "))
    return [str(each) for part in parts for each in split(1, part) if each.faults()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain_english(page: Path) -> None:
    found = page_faults(page.read_text(encoding="utf-8"))
    assert not found, "\n".join(["", *found])


def test_helps_are_plain_english() -> None:
    found = {
        name: faults for name, texts in helps().items() if (faults := [f for t in texts for f in help_faults(t)])
    }
    assert found == {}, "\n".join(f"{name}: {fault}" for name, faults in found.items() for fault in faults)


def test_messages_are_plain_english() -> None:
    found = {}
    for path in MODULES:
        if broken := [str(each) for each in messages(path.read_text(encoding="utf-8")) if each.faults()]:
            found[str(path.relative_to(ROOT))] = broken
    assert found == {}, "\n".join(f"{name}:{fault}" for name, faults in found.items() for fault in faults)


def scenario_faults(name: str) -> list[str]:
    """Every sentence of a scenario that breaks a rule: its story, parameters, checks and answer."""
    scenario = library.find(name)
    texts = [field.description or "" for field in scenario.parameters.model_fields.values()]
    texts += [check.__doc__ or "" for check in scenario.checks]
    if scenario.answer is not None:
        answer = scenario.answer
        texts += [answer.workload, *answer.hints, answer.sign, answer.because, answer.fix, answer.prevention]
    return [str(each) for each in story(scenario.text) if each.faults()] + help_faults("\n\n".join(texts))


@pytest.mark.parametrize("name", library.names())
def test_scenarios_are_plain_english(name: str) -> None:
    found = scenario_faults(name)
    assert not found, "\n".join(["", *found])


def test_a_story_that_breaks_a_rule_is_noticed() -> None:
    text = "A title.\n\nStory\n    Given  h1 sends\n    Then   nobody\n           hears it\n\n        h1 -- who\n"
    assert [each.text for each in story(text)] == ["A title.", "Story", "h1 sends", "nobody hears it"]
    assert [bool(each.faults()) for each in story(text)] == [False, False, False, True]


@pytest.mark.parametrize(
    "text",
    [
        "Who is there hangs up when it has heard.",
        "What cannot be read is told with how to write it.",
        "Of there, and of the checkout, only one file comes back.",
        "Hosts are paused, such as are behind the leaf.",
        "The script ends for those who are interrupted.",
        "An innocent flow suffers.",
        "A BGP session that nobody wants goes down.",
        "A group of hosts, of which one is slow, sends.",
        "A sentence has " + "very " * 22 + "many words.",
        "Short.\n\n| a | b |\n|---|---|\n| c | Who sends it |\n",
        "- An item.\n- He who reads this, and what is told.",
        "A picture:\n\n```\nplain\n```\n",
        "A command:\n\n    rocelab up x.yaml\n",
        "A wide block:\n\n```text\n" + "x" * 89 + "\n```\n",
        "Unknown:\n\n```bash\nls\n```\n",
    ],
)
def test_a_page_that_breaks_a_rule_is_noticed(text: str) -> None:
    assert page_faults(text)


def test_a_plain_page_passes() -> None:
    text = (
        "# Title\n\nThe switch pauses h1, e.g. for 5 us. Who pauses h2?\n\n```sh\n"
        + "x" * 88
        + "\n```\n\n| counter | meaning |\n|---|---|\n| `what is told` | XOFF frames sent, see RFC 6040 |\n"
    )
    assert page_faults(text) == []


def test_a_page_is_split_into_sentences() -> None:
    text = "# A title\n\nOne. Two `x. Y` and\nmore. 3 is a number.\n\n- an item\n  goes on\n\n```sh\nno prose\n```\n"
    assert [each.text for each in sentences(text)] == [
        "A title", "One.", "Two `x. Y` and more.", "3 is a number.", "an item goes on",
    ]  # fmt: skip
    assert [line for line, _ in paragraphs(text)] == [1, 3, 6]


@pytest.mark.parametrize(
    "source",
    [
        'raise UsageError("nobody is there", "try again")',
        'raise errors.OperationFailed(f"{x} has not got a port")',
        'warn("what was asked for is done" + rest)',
        'show_table("Who pauses whom", rows)',
        'typer.Option(help="Have it tell its name.")',
        'Problem(path=x, message=f"{y} is told", remedy="")',
    ],
)
def test_a_message_that_breaks_a_rule_is_noticed(source: str) -> None:
    assert any(each.faults() for each in messages(source))


def test_other_strings_are_no_messages() -> None:
    assert messages('x = "nobody"\nprint_json({"who": "nobody"})') == []


def test_a_help_that_breaks_a_rule_is_noticed() -> None:
    assert help_faults("Show who is told what, and whom.")
    assert not help_faults("Show every port: its rate, its queue and its peer.")
    assert Sentence(1, "Fine.").faults() == []
    assert "rocelab rdma bw" in helps()
