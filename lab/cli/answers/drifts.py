"""The ``--json`` answer of ``rocelab drift``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.audit import difference
from lab.cli.answers.base import Answer, Models

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.audit.difference import Difference
else:
    Difference = Models().of(difference.Difference)


class Drift(Answer):
    """``rocelab drift``."""

    fabric: str
    against: str
    """``plan``, or the time of the earlier state of a recording."""
    now: str
    """``now``, or the time of the later state of a recording."""
    drift: bool
    """Whether anything differs."""
    differences: list[Difference]
