"""What ``analyze``, ``dissect`` and ``follow`` answer with ``--json``, as models of the very dataclasses they print.

Names, types and units are where the facts are: a model can neither lack a field nor have one too many.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from lab.analysis import batch, connections, loss_facts
from lab.analysis.facts import Facts
from lab.analysis.follow import Copy, Track
from lab.analysis.ladder import Ladder
from lab.cli.packet_columns import COLUMNS
from lab.wire import headers, mad
from lab.wire.explain import Explanation
from lab.wire.frame import Frame

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final[Mapping[str, Any]] = {
    name: value for module in (batch, connections, loss_facts, headers, mad) for name, value in vars(module).items()
} | {"Sequence": Sequence}
"""What dataclasses import for their checks alone."""

_create: Final[Any] = create_model  # whose types know no fields that are found when it runs


class _Closed(BaseModel):
    """A mapping whose keys are all told."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Models:
    """Models of dataclasses, each made once; ``besides`` are fields that their JSON has otherwise, or besides."""

    def __init__(self, besides: Mapping[type, Mapping[str, Any]] | None = None) -> None:
        self._besides = besides or {}
        self._made: dict[type, type[BaseModel] | None] = {}  # None while it is being made

    def of(self, kind: Any) -> Any:
        """The model of a dataclass; while that is made, its name."""
        if kind not in self._made:
            self._made[kind] = None
            hints = get_type_hints(kind, globalns={**_NAMES, **vars(sys.modules[kind.__module__])})
            more = self._besides.get(kind, {})
            told = {each.name: hints[each.name] for each in fields(kind) if each.name not in more}
            named = {name: self._json(hint) for name, hint in told.items()} | dict(more)
            required: dict[str, Any] = {name: (hint, ...) for name, hint in named.items()}
            self._made[kind] = _create(kind.__name__, __base__=_Closed, __doc__=inspect.getdoc(kind), **required)
        return self._made[kind] or kind.__name__

    def _json(self, hint: Any) -> Any:
        """A type as JSON has it: lists for what is in order, and an enumeration's values."""
        if is_dataclass(hint):
            return self.of(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return Literal[tuple(member.value for member in hint)]
        within = tuple(self._json(each) for each in get_args(hint) if each is not Ellipsis)
        origin = get_origin(hint)
        if origin in {types.UnionType, Union}:
            return Union[within]  # noqa: UP007 - a model that is being made is a name, which has no |
        if origin is dict:
            return types.GenericAlias(dict, within)
        return hint if origin is None else types.GenericAlias(list, within[:1])


class _Syndrome(_Closed):
    """An AETH: its syndrome as a number and in words (IBA vol. 1 tables 43 to 46), and the MSN."""

    syndrome: int
    meaning: str
    msn: int


class _Seen(_Closed):
    """Which packet, from 1, where, and when.

    ``clock`` is as ``--time`` says, ``time`` in seconds since the first packet, ``timestamp`` in ns since 1970.
    """

    number: int
    timestamp: int
    time: float
    interface: str
    direction: str
    clock: str


_EXPLAINED: Final[Any] = _create(
    "Explained",
    __base__=_Seen,
    __doc__="``rocelab dissect``: a packet header by header, ``length`` in bytes on the wire.\n\n"
    "``fault`` says where its octets stop making sense, and is empty for a good one.",
    length=(int, ...),
    **{name: (field.annotation, ...) for name, field in _Models().of(Explanation).model_fields.items()},
)
_FRAMES: Final = _Models({Frame: {"aeth": _Syndrome | None, "opcode_name": str | None}})
_DECODED: Final[Any] = _create(
    "Decoded",
    __base__=_Seen,
    __doc__="``rocelab dissect --summary``: a packet by its fields; what it has not got is null.",
    **{name: (field.annotation, ...) for name, field in _FRAMES.of(Frame).model_fields.items()},
)
_CHOSEN: Final[Any] = _create(
    "Chosen",
    __base__=_Closed,
    __doc__="``rocelab dissect --columns``: those that were asked for.",
    **dict.fromkeys(COLUMNS, (str | int | float | bool | None, None)),
)
Dissect: Final[Any] = _create(
    "Dissect",
    __base__=_Closed,
    __doc__="``rocelab dissect``.",
    packets=(list[_EXPLAINED] | list[_DECODED] | list[_CHOSEN], ...),
    stopped_at_limit=(bool, ...),
)
_JUDGED: Final[Any] = _create(
    "Analyze",
    __base__=_Models().of(Facts),
    __doc__=inspect.getdoc(Facts),
    verdict=(Literal["pass", "fail", "unknown"], ...),
)
Analyze: Final[Any] = _JUDGED | _Models().of(Ladder)
"""``rocelab analyze``, and with ``--qp``."""
_TRACK: Final[Any] = _Models({Copy: {"delays": list[int]}}).of(Track)
Follow: Final[Any] = list[_TRACK]
"""``rocelab follow``: delays in ns."""
