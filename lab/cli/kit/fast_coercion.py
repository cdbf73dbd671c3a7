"""Words of the command line that are texts, paths or flags, taken as they are: for those nobody waits for pydantic.

Typer turns every value into what its parameter is annotated with by pydantic, whose import takes as long as all the
rest of ``rocelab ls``, and 14 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer._param_types import coerce_cli_path
from typer.core import TyperGroup, _TyperParameter

if TYPE_CHECKING:
    from typer._click.core import Command, Context


@dataclass(frozen=True)
class PlainValue(RuntimeParam):
    """What needs no conversion is not converted; Typer is asked about everything else."""

    descriptor: TypeDescriptor

    def _coerce_value(self, value: Any, param: _TyperParameter, ctx: Context) -> Any:
        told: Any = self.annotation
        info = self.parameter_info
        free = info.parser is None and info.path_type is None
        if free and told in {str, bool, int, float} and type(value) is told and self._in_range(value):
            return value
        if free and told is bool and value in {"0", "1"}:  # as ROCELAB_VM has it
            return value == "1"
        if free and self.descriptor.is_choice and isinstance(value, Enum):
            return value
        if free and self.descriptor.is_list and (not value or told == list[str]):
            return list(value)
        if free and told is Path and isinstance(value, (str, Path)):
            return coerce_cli_path(Path(value), info, path_type=Path, param=param, ctx=ctx)
        return build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)  # noqa: SLF001 - see above

    def _in_range(self, value: Any) -> bool:
        low, high = self.parameter_info.min, self.parameter_info.max
        return (low is None or value >= low) and (high is None or value <= high)


def take_plainly(command: Command, ctx: Context) -> None:
    """Have all parameters of a command, and of those below it, take plain values as they are."""
    for param in command.get_params(ctx):
        if isinstance(param, _TyperParameter):
            told = param.type_descriptor
            param._runtime_param = PlainValue(told.parameter_info, told.annotation, told)  # noqa: SLF001 - no other way
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            take_plainly(below, ctx)
