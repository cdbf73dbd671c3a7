"""The ``--json`` answer of ``rocelab lldp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.answers.base import Answer, Models
from lab.routing.lldp import cabling

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.routing.lldp.cabling import CabledPort
else:
    CabledPort = Models().of(cabling.CabledPort)


class Cabling(Answer):
    """``rocelab lldp``."""

    fabric: str
    as_planned: bool
    """Whether every port has the planned neighbour, and no other."""
    ports: list[CabledPort]
