"""The answers of analyze, dissect and follow, for captures of every kind, against their closed JSON Schemas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.schemas import adapter
from tests.fuzz.seeds import frames, story
from tests.unit.analysis.captures import pcap, pcapng, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def told(tmp_path: Path) -> Path:
    file = tmp_path / "story.pcapng"
    file.write_bytes(pcapng(records([*story(), *frames()])))
    return file


@pytest.mark.parametrize(
    "line",
    ["analyze FILE", "analyze FILE --icrc --rate 1Gbit", "analyze FILE --qp 0x11", "dissect FILE --limit 500",
     "dissect FILE --summary", "dissect FILE --columns number,psn,answer,info",
     "dissect FILE --packet 3 --time epoch", "follow FILE 0x22:3", "follow FILE 0x22:999"],
)  # fmt: skip
def test_answers_are_as_their_schema_has_them(line: str, told: Path) -> None:
    words = line.replace("FILE", str(told)).split()
    said = CliRunner().invoke(app, [*words, "--json"])
    assert said.stdout, said.exception
    adapter(words[0]).validate_json(said.stdout)


def test_an_empty_capture_is_as_the_schema_has_it(tmp_path: Path) -> None:
    file = tmp_path / "empty.pcap"
    file.write_bytes(pcap([]))
    said = CliRunner().invoke(app, ["analyze", str(file), "--json"])
    adapter("analyze").validate_json(said.stdout)


def test_what_another_program_would_write_is_refused(told: Path) -> None:
    """A key more, one that is missing, and a number as text, in flows too."""
    right = json.loads(CliRunner().invoke(app, ["analyze", str(told), "--json"]).stdout)
    for wrong in _wrong(right):
        with pytest.raises(ValidationError):
            adapter("analyze").validate_json(json.dumps(wrong))


def _wrong(right: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield right | {"more": 1}
    yield {key: value for key, value in right.items() if key != "findings"}
    yield right | {"packets": "7"}
    yield right | {"verdict": "perhaps"}
    yield right | {"flows": [right["flows"][0] | {"colour": "red"}]}
    yield right | {"flows": [right["flows"][0] | {"goodput": None}]}


@pytest.mark.parametrize("command", ["analyze", "dissect", "follow"])
def test_every_object_of_a_schema_is_closed(command: str) -> None:
    schema = adapter(command).json_schema()
    for told in schema["$defs"].values():
        if told.get("type") == "object":
            assert told["additionalProperties"] is False, told["title"]
            assert told["description"]


def test_units_are_told_where_the_facts_are() -> None:
    definitions = adapter("analyze").json_schema()["$defs"]
    assert "bit/s" in definitions["FlowFacts"]["description"]
