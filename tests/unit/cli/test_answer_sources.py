"""A field of an answer is declared once: answers that a dataclass has already are made from it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lab
from lab.cli.schemas import adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM: Final = Path(lab.__file__).parent
ANSWERS: Final = ROOM / "cli" / "answers"


def fields_of(node: ast.ClassDef) -> frozenset[str]:
    return frozenset(
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def of_dataclasses(tree: ast.AST) -> set[frozenset[str]]:
    """The fields of each dataclass, three or more: fewer may agree by chance."""
    found = {
        fields_of(node)
        for node in classes(tree)
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    }
    return {fields for fields in found if len(fields) > 2}


def repeated(tree: ast.AST, known: set[frozenset[str]]) -> set[str]:
    """Classes that declare all fields of a dataclass again."""
    return {node.name for node in classes(tree) if fields_of(node) in known}


def test_answers_repeat_no_dataclass() -> None:
    known = set()
    for path in ROOM.rglob("*.py"):
        known |= of_dataclasses(ast.parse(path.read_text(encoding="utf-8")))
    found = set()
    for path in ANSWERS.glob("*.py"):
        found |= repeated(ast.parse(path.read_text(encoding="utf-8")), known)
    assert found == set()


def test_a_repetition_is_found() -> None:
    home = ast.parse("@dataclass(frozen=True)\nclass Line:\n    at: float\n    what: str\n    source: str\n")
    answer = ast.parse("class LineAnswer(Answer):\n    at: float\n    source: str\n    what: str\n")
    assert repeated(answer, of_dataclasses(home)) == {"LineAnswer"}


def test_descriptions_come_from_the_dataclass() -> None:
    described = adapter("report").json_schema()["$defs"]["FigureAnswer"]["properties"]
    assert described["of"]["description"] == "A port or an RDMA device."
    assert described["kind"]["description"].startswith("The measure: tx_bps (bit/s)")


def test_an_answer_may_narrow_a_field() -> None:
    schema = adapter("report").json_schema()["$defs"]["ReportedCheck"]
    assert schema["properties"]["outcome"]["enum"] == ["pass", "fail", "unknown"]
    assert schema["required"] == ["name", "meaning", "outcome", "evidence"]
    assert schema["additionalProperties"] is False
