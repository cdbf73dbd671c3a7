"""The congestion control of a port as data for ``--json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos


def cc_data(cc: CcQos) -> dict[str, Any]:
    """Return the settings of a port with its registers as published and at the lab's rate."""
    return {**asdict(cc), "registers": asdict(cc.registers)}
