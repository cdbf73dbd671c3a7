"""The ``--json`` answers of ``analyze``, ``dissect`` and ``follow``, generated from the dataclasses that they print.

Each model has exactly the names, types and units of its dataclass.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, Literal

from lab.analysis.flows import qp_connections
from lab.analysis.read import packet_batch
from lab.analysis.results import icrc_facts, loss_facts
from lab.analysis.results.analysis_facts import AnalysisFacts
from lab.analysis.views.follow import Copy, Track
from lab.analysis.views.ladder import Ladder
from lab.cli.answers.base import Answer, Models, create
from lab.cli.tables.packet_columns import COLUMNS
from lab.wire import headers, mad
from lab.wire.explain.explanation import FrameExplanation
from lab.wire.frame import DecodedFrame

_NAMES: Final = (packet_batch, qp_connections, icrc_facts, loss_facts, headers, mad)
"""Modules that provide the names that dataclasses import under TYPE_CHECKING."""
_MODELS: Final = Models(_NAMES)


class _Syndrome(Answer):
    """An AETH: its syndrome as a number and as text (IBA vol. 1 tables 43 to 46), and the MSN."""

    syndrome: int
    meaning: str
    msn: int


class _Seen(Answer):
    """The number of a packet, counted from 1, its interface, and its time.

    ``clock`` is formatted according to ``--time``. ``time`` is in seconds since the first packet, ``timestamp`` in ns
    since 1970.
    """

    number: int
    timestamp: int
    time: float
    interface: str
    direction: str
    clock: str


_EXPLAINED: Final[Any] = create(
    "Explained",
    __base__=_Seen,
    __doc__="``rocelab dissect``: a packet header by header, ``length`` in bytes on the wire.\n\n"
    "``fault`` says where its octets stop making sense, and is empty for a good one.",
    length=(int, ...),
    **{name: (field.annotation, ...) for name, field in _MODELS.of(FrameExplanation).model_fields.items()},
)
_FRAMES: Final = Models(_NAMES, {DecodedFrame: {"aeth": _Syndrome | None, "opcode_name": str | None}})
_DECODED: Final[Any] = create(
    "Decoded",
    __base__=_Seen,
    __doc__="``rocelab dissect --summary``: the fields of a packet; null for those that it lacks.",
    **{name: (field.annotation, ...) for name, field in _FRAMES.of(DecodedFrame).model_fields.items()},
)
_CHOSEN: Final[Any] = create(
    "Chosen",
    __base__=Answer,
    __doc__="``rocelab dissect --columns``: the requested columns.",
    **dict.fromkeys(COLUMNS, (str | int | float | bool | None, None)),
)
Dissect: Final[Any] = create(
    "Dissect",
    __base__=Answer,
    __doc__="``rocelab dissect``; ``not_decoded`` are packets of links that are not read, by the type of the link.",
    packets=(list[_EXPLAINED] | list[_DECODED] | list[_CHOSEN], ...),
    stopped_at_limit=(bool, ...),
    not_decoded=(dict[str, int], ...),
)
_JUDGED: Final[Any] = create(
    "Analyze",
    __base__=_MODELS.of(AnalysisFacts),
    __doc__=inspect.getdoc(AnalysisFacts),
    verdict=(Literal["pass", "fail", "unknown"], ...),
)
Analyze: Final[Any] = _JUDGED | _MODELS.of(Ladder)
"""``rocelab analyze``, and with ``--qp``."""
_TRACK: Final[Any] = Models(_NAMES, {Copy: {"delays": list[int], "circles": str}}).of(Track)
Follow: Final[Any] = list[_TRACK]
"""``rocelab follow``: delays in ns; ``circles`` names the link of a routing loop, empty without a loop."""
