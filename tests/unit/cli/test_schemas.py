"""The JSON Schema of every command's answer, against what the commands say."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
import typer
from pydantic import ValidationError
from typer.core import TyperGroup
from typer.testing import CliRunner

from lab.cli.main import Commands, app
from lab.cli.schemas import ANSWERS, Balance, Bandwidth, Latency, TotalBandwidth, adapter
from lab.errors import InvalidInput, Problem, UsageError
from lab.rdma import measure, meter
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    made = run(fabric("lab"), tmp_path, monkeypatch)
    monkeypatch.setattr("lab.cli.congestion.open_plant", lambda _: made.plant)
    return made


def with_json() -> set[str]:
    """Commands that have --json."""
    context = typer.Context(typer.main.get_command(app))
    return set(_with_json(Commands(name="rocelab"), context, ""))


def _with_json(group: TyperGroup, context: typer.Context, above: str) -> Iterator[str]:
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _with_json(command, context, f"{above}{name} ")
        elif any("--json" in parameter.opts for parameter in command.params):
            yield f"{above}{name}"


def test_every_command_that_answers_in_json_has_a_schema() -> None:
    assert set(ANSWERS) == with_json() | {"error"}


@pytest.mark.parametrize(
    "line",
    ["ls", "inspect", "inspect h1", "counters", "counters --all", "congestion --for 1ms", "qos show", "qos events",
     "expect drops==0 goodput>1Mbit", "craft cnp", "vm status", "vm ls", "doctor"],
)  # fmt: skip
def test_answers_are_as_their_schema_has_them(line: str) -> None:
    words = line.split()
    name = " ".join(words[:2]) if " ".join(words[:2]) in ANSWERS else words[0]
    said = CliRunner().invoke(app, [*words, "--json"])
    assert said.stdout, said.exception
    adapter(name).validate_json(said.stdout)


def test_errors_are_as_their_schema_has_them() -> None:
    for error in (UsageError("x", "y"), InvalidInput("f", [Problem("a", "b", "c", 1)])):
        adapter("error").validate_json(json.dumps({"error": error.as_data()}))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (Bandwidth, measure.BandwidthResult),
        (Latency, measure.LatencyResult),
        (TotalBandwidth, measure.Total),
    ],
)
def test_what_perftest_measured_has_these_names(model: Any, kind: Any) -> None:
    assert set(model.model_fields) == {field.name for field in fields(kind)}
    assert set(Balance.model_fields) == {field.name for field in fields(meter.Balance)} | {"under_way"}


@pytest.mark.parametrize("wrong", [{"fabric": "x"}, {"fabric": "x", "nodes": "2", "seconds": {}}, []])
def test_another_answer_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        adapter("up").validate_json(json.dumps(wrong))
    with pytest.raises(ValidationError):
        adapter("up").validate_json('{"fabric": "x", "nodes": 2, "seconds": {}, "restored": false, "more": 1}')


@pytest.mark.parametrize("command", list(ANSWERS))
def test_schemas_are_printed(command: str) -> None:
    printed = json.loads(CliRunner().invoke(app, ["docs", "--schema", command]).stdout)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"type", "anyOf"} & set(printed)


def test_no_schema_of_a_command_that_is_not_there() -> None:
    refused = CliRunner().invoke(app, ["docs", "--schema", "rdma b"]).exception
    assert str(refused) == "no command 'rdma b' answers in JSON: did you mean 'rdma bw'?"
