"""The base of all answers: models written by hand, and models generated from the dataclasses that commands print.

A generated model has exactly the names, types and units of its dataclass.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

if TYPE_CHECKING:
    from collections.abc import Iterator

create: Final[Any] = create_model
"""pydantic's ``create_model``; as ``Any``, because its type hints reject fields that are computed at run time."""
_MAPPINGS: Final = {dict, Mapping}


class Answer(BaseModel):
    """The base of answers: a JSON object that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Models:
    """Generates one model for each dataclass.

    ``besides`` are fields whose JSON differs from the dataclass or is not in it. ``names`` are modules that provide
    the names that dataclasses import under TYPE_CHECKING.
    """

    def __init__(
        self, names: Iterable[types.ModuleType] = (), besides: Mapping[type, Mapping[str, Any]] | None = None
    ) -> None:
        known = {name: value for module in names for name, value in vars(module).items()}
        self._names = known | {"Mapping": Mapping, "Sequence": Sequence}
        self._besides = besides or {}
        self._made: dict[type, type[BaseModel] | None] = {}  # None while it is being made

    def of(self, kind: Any) -> Any:
        """Return the model of a dataclass, or its name while the model is being created."""
        if kind not in self._made:
            self._made[kind] = None
            hints = get_type_hints(kind, globalns={**self._names, **vars(sys.modules[kind.__module__])})
            more = self._besides.get(kind, {})
            said = dict(_said_of_fields(kind))
            named = {
                each.name: (self._json(hints[each.name]), Field(description=said.get(each.name)))
                for each in fields(kind)
                if each.name not in more
            }
            required = named | {name: (hint, ...) for name, hint in more.items()}
            self._made[kind] = create(kind.__name__, __base__=Answer, __doc__=inspect.getdoc(kind), **required)
        return self._made[kind] or kind.__name__

    def _json(self, hint: Any) -> Any:
        """Return the JSON type of a hint: lists for sequences, and literal values for enumerations."""
        if is_dataclass(hint):
            return self.of(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return Literal[tuple(member.value for member in hint)]
        arguments, origin = get_args(hint), get_origin(hint)
        if origin in {None, Literal}:
            return hint
        within = tuple(self._json(each) for each in arguments if each is not Ellipsis)
        if origin in {types.UnionType, Union}:
            return Union[within]  # noqa: UP007 - a model that is being made is a name, which has no |
        fixed = origin is tuple and Ellipsis not in arguments
        return types.GenericAlias(dict if origin in _MAPPINGS else tuple if fixed else list, within)


def _said_of_fields(kind: type) -> Iterator[tuple[str, str]]:
    """Yield each field that has a docstring below it, and that docstring."""
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    for line, below in pairwise(getattr(written, "body", ())):
        match line, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
