"""The models of the commands' ``--json`` answers, from which their JSON Schemas are generated."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from operator import or_
from types import GenericAlias
from typing import Any, Final

from pydantic import TypeAdapter

from lab.cli.command_registry import answer_models

ANSWERS: Final = answer_models()
"""The name of each model by command; ``error`` is the answer of any command that fails."""


def adapter(command: str) -> TypeAdapter[Any]:
    """Return the pydantic adapter for the answers of a command; KeyError if it has none."""
    return TypeAdapter(answer_type(command))


def answer_type(command: str) -> Any:
    """Return the type of the answers of a command; KeyError if it has none."""
    return _model(ANSWERS[command])


def _model(name: str) -> Any:
    """Return the type that the registry names: ``MODULE.CLASS`` of ``lab.cli.answers``, a list of one, or a union."""
    if " | " in name:
        return reduce(or_, map(_model, name.split(" | ")))
    if name.startswith("list["):
        return GenericAlias(list, (_model(name[5:-1]),))
    module, _, model = name.rpartition(".")
    return getattr(import_module(f"lab.cli.answers.{module}"), model)
