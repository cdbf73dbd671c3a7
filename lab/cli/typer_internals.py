"""Private names of Typer, and of the click that it contains: no other module of rocelab uses them.

Typer has no public names for its command classes and errors, nor for the conversion of values.
``tests/unit/cli/test_typer_internals.py`` checks each name: an upgrade of Typer that changes one fails there.

``convert_without_pydantic`` is here because it replaces a private hook. Typer converts every value with pydantic.
Importing pydantic takes as long as the rest of ``rocelab ls``, and 14 MB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

from typer._click.core import Command, Context
from typer._click.exceptions import BadParameter, NoArgsIsHelpError
from typer._click.exceptions import UsageError as MisusedCommand
from typer._click.globals import get_current_context
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer._param_types import coerce_cli_path
from typer.core import TyperGroup, _TyperParameter

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "SLOW_MODULES", "Command", "Context", "MisusedCommand", "NoArgsIsHelpError", "PlainValue", "TypedWord",
    "convert_without_pydantic", "get_current_context", "leaves", "remaining_words", "typed_words",
]  # fmt: skip

SLOW_MODULES: Final = ("typer.rich_utils", "typer._adapters")
"""Modules that Typer imports to print help, or to convert a value with pydantic."""
_LARGEST: Final = 1e9
"""The largest number with a fraction: seconds, hertz or percent. As ns, these fit into 64 bits."""
_LONGEST: Final = 60
"""Characters of a rejected value that are shown."""
_COMPLAINTS: Final = {
    "int_parsing": "is not a whole number",
    "int_parsing_size": "has too many digits",
    "float_parsing": "is not a number",
    "bool_parsing": "is neither true nor false",
    "greater_than_equal": "is out of range: at least {ge}",
    "less_than_equal": "is out of range: at most {le}",
}
"""The complaint about a value, by the type of pydantic's error."""
_TYPED: Final = "lab.cli.typed_words"
"""Key of ``Context.meta``: the unconverted values of parameters, by parameter."""


class TypedWord(str):
    """A word of a command line with its place, or the value in a word like ``-oFILE``.

    Typer's parser only slices and splits words, so the place is preserved until a value is converted.
    """

    place: int
    """The index among the words after ``rocelab``."""

    def __new__(cls, text: str, place: int) -> Self:
        """Create a word with its place."""
        self = super().__new__(cls, text)
        self.place = place
        return self

    def __getitem__(self, which: SupportsIndex | slice) -> Self:
        return type(self)(super().__getitem__(which), self.place)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """Split as ``str`` does; the parts keep the place."""
        return [type(self)(part, self.place) for part in super().split(sep, maxsplit)]


def remaining_words(context: Context) -> list[str]:
    """Return the words that a group has parsed for its subcommand: its name, then the rest."""
    return [*context._protected_args, *context.args]  # noqa: SLF001 - as Typer's own completion does


def typed_words(context: Context, parameter: Any) -> list[TypedWord]:
    """Return the words that are the value of a parameter; none for defaults and environment variables."""
    value = context.meta.get(_TYPED, {}).get(parameter)
    return [word for word in (value if isinstance(value, list | tuple) else [value]) if isinstance(word, TypedWord)]


@dataclass(frozen=True)
class PlainValue(RuntimeParam):
    """Converts texts, paths, numbers and flags without pydantic, and leaves all others to Typer."""

    descriptor: TypeDescriptor

    def _coerce_value(self, value: Any, param: _TyperParameter, ctx: Context) -> Any:
        ctx.meta.setdefault(_TYPED, {})[param] = value
        return self._converted(_untyped(value), param, ctx)

    def _converted(self, value: Any, param: _TyperParameter, ctx: Context) -> Any:
        kind: Any = self.annotation
        info = self.parameter_info
        free = info.parser is None and info.path_type is None
        if free and kind in {str, bool, int, float} and type(value) is kind and self._in_range(value):
            return value
        if free and kind is bool and value in {"0", "1"}:  # a value of ROCELAB_VM
            return value == "1"
        if free and self.descriptor.is_choice and isinstance(value, Enum):
            return value
        if free and self.descriptor.is_list and (not value or kind == list[str]):
            return list(value)
        if free and kind is Path and isinstance(value, (str, Path)):
            return coerce_cli_path(Path(value), info, path_type=Path, param=param, ctx=ctx)
        try:
            found = build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)  # noqa: SLF001 - see above
        except BadParameter as error:
            error.message = _complaint(error)
            raise
        if isinstance(found, float) and not math.isfinite(found):
            raise BadParameter(f"{value} is not a finite number.", ctx=ctx, param=param)
        if isinstance(found, float) and abs(found) > _LARGEST:
            raise BadParameter(f"{value} is out of range: at most {_LARGEST:g}.", ctx=ctx, param=param)
        return found

    def _in_range(self, value: Any) -> bool:
        low, high = self.parameter_info.min, self.parameter_info.max
        return (low is None or value >= low) and (high is None or value <= high)


def _complaint(error: BadParameter) -> str:
    """Return the message of a rejected value: it names the value, which pydantic's own message does not."""
    find: Any = getattr(error.__cause__, "errors", None)
    if find is None:
        return error.message
    first = find()[0]
    if (said := _COMPLAINTS.get(first["type"])) is not None:
        shown = repr(str(first["input"]))
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
        return f"{shown} {said.format(**first.get('ctx', {}))}"
    return str(first["msg"]).removeprefix("Value error, ")


def _untyped(value: Any) -> Any:
    """Return a value with plain strings instead of words."""
    if isinstance(value, TypedWord):
        return str(value)
    return type(value)(map(_untyped, value)) if isinstance(value, list | tuple) else value


def convert_without_pydantic(command: Command, context: Context) -> None:
    """Use ``PlainValue`` for all parameters of a command and its subcommands."""
    for param in command.get_params(context):
        if isinstance(param, _TyperParameter):
            descriptor = param.type_descriptor
            param._runtime_param = PlainValue(descriptor.parameter_info, descriptor.annotation, descriptor)  # noqa: SLF001 - no other way
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            convert_without_pydantic(below, context)


def leaves(command: Command) -> Sequence[Command]:
    """Return the subcommands that Typer has already created; the command itself if it is no group."""
    if isinstance(command, TyperGroup):
        return [leaf for below in command.commands.values() for leaf in leaves(below)]
    return [command]
