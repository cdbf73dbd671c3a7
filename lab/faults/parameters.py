"""Parameters of faults and scenarios: validation of user input, and descriptions for lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from lab.errors import InvalidInput, Problem
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from lab.faults.fault import Parameters

P = TypeVar("P", bound="Parameters")


def read(model: type[P], written: Mapping[str, Any], whose: str, see: str) -> P:
    """Return validated parameters. Raises InvalidInput about ``whose`` that lists all invalid ones.

    ``see`` is the command that shows the valid parameters.
    """
    try:
        return model.model_validate(written)
    except ValidationError as error:
        raise InvalidInput(whose, sorted({_problem(model, detail, see) for detail in error.errors()})) from error


def listed(model: type[Parameters]) -> list[dict[str, str | None]]:
    """Return name, default and meaning of each parameter. The default of a required parameter is None."""
    return [
        {
            "name": field.alias or name,
            "default": None if field.is_required() else _text(field.default),
            "meaning": " ".join((field.description or "").split()),
        }
        for name, field in model.model_fields.items()
    ]


def _problem(model: type[Parameters], detail: ErrorDetails, see: str) -> Problem:
    key = ".".join(map(str, detail["loc"]))
    known = [field.alias or name for name, field in model.model_fields.items()]
    if detail["type"] == "extra_forbidden":
        others = f"it has {', '.join(known)}" if known else "it has none"
        return Problem(key, "is no parameter", suggest(key, known, others))
    if detail["type"] == "missing":
        return Problem(key, "is missing", f"give {key}=...: see {see}")
    message, _, remedy = str(detail.get("ctx", {}).get("error", detail["msg"])).partition("; ")
    return Problem(key, message, remedy or f"see {see}")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(getattr(value, "value", value))
