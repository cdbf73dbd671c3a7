"""``rocelab docs``: every page is there, begins with what it is about, and names commands that exist."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.machine.docs import PAGES, topics
from lab.errors import UsageError
from tests.unit.cli.test_help import README, unknown_commands


def test_the_list_has_every_page_and_what_it_is_about() -> None:
    said = CliRunner().invoke(app, ["docs"])
    assert said.exit_code == 0
    assert {"bench", "counters", "emulation", "exchange", "time"} <= set(topics())
    for topic in topics():
        row = next(line for line in said.stdout.splitlines() if line.startswith(f"│ {topic} "))
        title = (PAGES / f"{topic}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert title.startswith(row.split("│")[2].strip()[:20])
        assert row.split("│")[2].strip()


@pytest.mark.parametrize("topic", topics())
def test_a_page_is_printed_as_it_is_written(topic: str) -> None:
    text = (PAGES / f"{topic}.md").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["docs", topic]).stdout == text
    assert text.startswith("# ")
    assert unknown_commands(text) == []


def test_a_slip_of_the_hand_is_answered() -> None:
    refused = CliRunner().invoke(app, ["docs", "exchnge"]).exception
    assert isinstance(refused, UsageError)
    assert str(refused) == "no page about exchnge: did you mean 'exchange'?"
    refused = CliRunner().invoke(app, ["docs", "xyz"]).exception
    assert str(refused) == "no page about xyz: rocelab docs lists all pages"


def test_the_readme_names_pages_that_exist() -> None:
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"rocelab docs ([a-z][a-z-]*)", text) + re.findall(r"lab/docs/([a-z-]+)\.md", text)
    assert set(named) <= set(topics())
