"""Validate data against the spec: report every error in terms of the file, and keep the valid part.

Invalid values are removed, as few as possible, so that the rules can check the rest in the same run.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from pydantic import ValidationError

from lab.model.spec import SHAPES, TopologySpec
from lab.model.values.suggest import suggest
from lab.model.values.yamltext import Path, Value, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

_ROUNDS: Final = 8


class SpecFinding(NamedTuple):
    """A problem without its line."""

    path: Path
    message: str
    remedy: str


@dataclass(frozen=True)
class Draft:
    """The valid part of a file, and all names in it, valid or not: of sections, nodes and QoS profiles.

    ``link_numbers`` are the positions of ``spec.links`` in the file.
    """

    spec: TopologySpec
    link_numbers: Sequence[int]
    sections: frozenset[str]
    node_names: frozenset[str]
    profile_names: frozenset[str]


def validate(data: Value) -> tuple[Draft | None, list[SpecFinding]]:
    """Check ``data`` against ``TopologySpec``; the draft is None if too little is valid."""
    if data is None:
        return None, [SpecFinding((), "is empty", "begin with `rocelab topology new leaf-spine`")]
    if not isinstance(data, dict):
        return None, [SpecFinding((), f"must be a mapping, not {show(data)}", "begin with `name: my-fabric`")]
    try:
        return _draft(data, data), []
    except ValidationError as error:
        return _salvage(data, error), [*explain(error, data, _schema()), *_behind_shape(data, error)]


def _behind_shape(data: Mapping[str, Value], error: ValidationError) -> list[SpecFinding]:
    """Return further errors in ``generate`` with an invalid shape, judged by the most similar shape."""
    written = data.get("generate")
    if not isinstance(written, dict) or not any(detail["type"] in _SHAPELESS for detail in error.errors()):
        return []
    close = get_close_matches(str(written.get("shape"))[:64], SHAPES, n=1)
    shape = max(close or SHAPES, key=lambda name: sum(key in SHAPES[name].model_fields for key in written))
    guess: dict[str, Value] = {"name": "unnamed", "generate": {**written, "shape": shape}}
    try:
        TopologySpec.model_validate_json(json.dumps(guess))
    except ValidationError as inner:
        details = [detail for detail in inner.errors() if detail["type"] != "missing"]
        return [_explain(detail, guess, _schema()) for detail in details]
    return []


def explain(error: ValidationError, data: Value, schema: Mapping[str, Any]) -> list[SpecFinding]:
    """Return the errors of ``data``; ``schema`` is the JSON Schema of the model that rejected it."""
    return [_explain(detail, data, schema) for detail in error.errors()]


@cache
def _schema() -> Mapping[str, Any]:
    return TopologySpec.model_json_schema()


def _draft(data: Mapping[str, Value], original: Mapping[str, Value]) -> Draft:
    spec = TopologySpec.model_validate_json(json.dumps(data))
    links, nodes, qos = original.get("links"), original.get("nodes"), original.get("qos")
    profiles = qos.get("profiles") if isinstance(qos, dict) else None
    return Draft(
        spec=spec,
        link_numbers=range(len(links)) if isinstance(links, list) else (),
        sections=frozenset(original),
        node_names=frozenset(nodes if isinstance(nodes, dict) else ()),
        profile_names=frozenset(profiles if isinstance(profiles, dict) else ()),
    )


def _salvage(original: dict[str, Value], error: ValidationError) -> Draft | None:
    data = deepcopy(original)
    links = data.get("links")
    number_of = {id(link): number for number, link in enumerate(links)} if isinstance(links, list) else {}
    for _ in range(_ROUNDS):
        _prune(data, error)
        data.setdefault("name", "unnamed")
        kept = data.get("links", [])
        try:
            draft = _draft(data, original)
        except ValidationError as again:
            error = again
            continue
        numbers = [number_of[id(link)] for link in kept] if isinstance(kept, list) else []
        return replace(draft, link_numbers=numbers)
    return None


def _prune(data: dict[str, Value], error: ValidationError) -> None:
    """Remove each invalid value; for a missing one, remove the mapping that lacks it."""
    doomed = {_path(detail, data)[: -1 if detail["type"] in _MISSING else None] for detail in error.errors()}
    for path in sorted(doomed, key=lambda path: tuple((isinstance(part, str), part) for part in path), reverse=True):
        parent: Any = data
        for part in path[:-1]:
            parent = parent[part]
        if path and (path[-1] in parent if isinstance(parent, dict) else isinstance(path[-1], int)):
            del parent[path[-1]]


def _path(detail: ErrorDetails, data: Value) -> Path:
    """Where in the file: pydantic's location without the names of union members and its mark for keys."""
    found: list[str | int] = []
    here: Any = data
    location = detail["loc"]
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if _holds(here, part):
            found.append(part)
            here = here[part]
        elif last and part != "[key]" and detail["type"] == "missing":
            found.append(part)
    if detail["type"] in _SHAPELESS:
        found.append("shape")
    return tuple(found)


def _holds(container: Any, part: str | int) -> bool:
    if isinstance(container, dict):
        return part in container
    return isinstance(container, list) and isinstance(part, int)


_MISSING: Final = {"missing", "union_tag_not_found"}
_SHAPELESS: Final = {"union_tag_not_found", "union_tag_invalid"}
_NUMBERS: Final = {"int_type", "int_from_float"}
_SHAPES: Final = {"list_type", "dict_type", "model_type", "model_attributes_type"}
_COUNTED: Final = {"too_short", "too_long"}
_EXAMPLE: Final = 4
"""A whole number that is in the bounds of whatever has no larger minimum."""

_FORMS: Final[dict[str, tuple[str, str]]] = {
    "greater_than_equal": ("{input} is too small", "choose {ge} or more"),
    "less_than_equal": ("{input} is too big", "choose {le} or less"),
    "int_type": ("{input} is not a whole number", "write digits only, like {example}"),
    "int_from_float": ("{input} is not a whole number", "write digits only, like {example}"),
    "greater_than": ("{input} is too small", "choose more than {gt:g}"),
    "float_type": ("{input} is not a number", "write digits, like 0.5"),
    "bool_type": ("{input} is neither true nor false", "write true or false"),
    "string_type": ("{input} is not text", "put it in quotes"),
    "list_type": ("must be a list, not {input}", "write its items as `- ...` lines or in [ ]"),
    "dict_type": ("must be a mapping, not {input}", "write `key: value` lines below it"),
    "model_type": ("must be a mapping, not {input}", "write `key: value` lines below it"),
    "model_attributes_type": ("must be a mapping, not {input}", "write `key: value` lines below it"),
    "enum": ("{input} is not known", "choose {expected}"),
    "literal_error": ("{input} is not known", "choose {expected}"),
    "string_too_short": ("is too short", "write at least {min_length} character"),
    "too_short": ("has too few entries ({actual_length})", "write {min_length}"),
    "too_long": ("has too many entries ({actual_length})", "write at most {max_length}"),
    "string_too_long": ("is too long", "write at most {max_length} characters"),
    "union_tag_not_found": ("is missing", "add shape: leaf-spine, clos or rail-optimised"),
    "union_tag_invalid": ("{input} is not known", "choose leaf-spine, clos or rail-optimised"),
}


def _explain(detail: ErrorDetails, data: Value, schema: Mapping[str, Any]) -> SpecFinding:
    path, kind, context = _path(detail, data), detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        message, _, remedy = str(context["error"]).partition("; ")
        return SpecFinding(path, message, remedy)
    if kind == "extra_forbidden":
        known = list(schema_at(schema, detail["loc"][:-1]).get("properties", {}))
        remedy = suggest(str(path[-1]), known, f"the keys here are {', '.join(known)}")
        return SpecFinding(path, "is not a known key", remedy)
    here = schema_at(schema, detail["loc"])
    if kind == "missing":
        meaning = " ".join(here.get("description", "").split())
        like = f", like `{path[-1]}: {_example(here)}`" if _example(here) else ""
        return SpecFinding(path, "is missing", f"add it{like}: {meaning[:1].lower()}{meaning[1:].rstrip('.')}")
    message, remedy = _FORMS.get(kind, (detail["msg"].replace("{", "{{"), "see `rocelab topology schema`"))
    if kind in _SHAPES:
        remedy = (_how_to_write(here, schema) or remedy).replace("{", "{{").replace("}", "}}")
    written = detail["input"].get("shape") if kind in _SHAPELESS else detail["input"]
    values = {"input": show(written), **context}
    if kind in _NUMBERS:
        values["example"] = max(_EXAMPLE, here.get("minimum", _EXAMPLE))
    remedy = remedy.format(**values)
    if kind in _COUNTED and _example(here):
        remedy += f", like {_example(here)}"
    return SpecFinding(path, message.format(**values), remedy)


def _example(here: Mapping[str, Any]) -> str:
    """The first example of a list or mapping, as YAML on one line; "" when its JSON Schema has none."""
    example = next(iter(here.get("examples", ())), None)
    if not isinstance(example, list | dict):
        return ""
    return yaml.safe_dump(example, default_flow_style=True, sort_keys=False, width=10**6).strip()


def _how_to_write(here: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """How a list or mapping is written: by its example, or that of its items or values, or by its keys."""
    if example := _example(here):
        return f"write it like {example}"
    if example := _example(_resolve(here.get("items", {}), schema)):
        return f"write its items as lines like `- {example}`"
    if example := _example(_resolve(next(iter(here.get("patternProperties", {}).values()), {}), schema)):
        return f"write a line for each, like `name: {example}`"
    if keys := ", ".join(here.get("properties", {})):
        return f"write `key: value` lines below it; the keys are {keys}"
    return ""


def schema_at(schema: Mapping[str, Any], location: Sequence[str | int]) -> Mapping[str, Any]:
    """The JSON Schema of what is at ``location``, a path as pydantic gives it (with the names of union members)."""
    here: Mapping[str, Any] = _resolve(schema, schema)
    for part in location:
        if "discriminator" in here:
            here = {"$ref": here["discriminator"]["mapping"].get(part, "")}
        elif isinstance(part, int):
            here = here.get("items", {})
        else:
            members = here.get("patternProperties", {}).values()
            here = here.get("properties", {}).get(part) or next(iter(members), {})
        here = _resolve(here, schema)
    return here


def _resolve(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references, and take the first alternative of what may also be absent."""
    if "anyOf" in part:
        return {**_resolve(part["anyOf"][0], schema), **{k: v for k, v in part.items() if k == "description"}}
    name = part.get("$ref", "").removeprefix("#/$defs/")
    return {**schema["$defs"].get(name, {}), **part} if name else part
