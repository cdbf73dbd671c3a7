"""NumPy records that the impairment program and user space share, from the generated layout of ``bpf/impair.h``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.kernel.bpf import type_layouts
from lab.model.impairment import parts

if TYPE_CHECKING:
    from lab.model.impairment import Impairment

SOURCE: Final = Path(__file__).parent / "bpf" / "impair.bpf.c"
TYPES: Final = type_layouts.TypeLayouts.read(type_layouts.beside(SOURCE))
_SIZES: Final = TYPES.enumeration("rl_impair_size")
_TRAFFIC: Final = TYPES.enumeration("rl_traffic")
_ANY: Final = _SIZES["RL_IMPAIR_ANY"]
_WORD: Final = 64

ASKED: Final = TYPES.record("rl_impairment")
TRUTH: Final = TYPES.record("rl_truth")


def record(asked: Impairment, place: int) -> np.void:
    """Return the configuration record of an impairment at ``place`` of its hook."""
    made: np.void = np.zeros(1, ASKED)[0]
    for name in ("seed", "lose_every", "min_size", "clear_ecn"):
        made[name] = getattr(asked, name)
    for name in ("loss", "corrupt_frame", "corrupt_payload", "duplicate"):
        made[name] = parts(getattr(asked, name))
    made["traffic"] = sum(_TRAFFIC[f"RL_TRAFFIC_{each.name}"] for each in asked.traffic)
    made["dscps"] = _bits(asked.dscps, _SIZES["RL_IMPAIR_DSCPS"])
    made["pcps"] = _bits(asked.pcps, 8)
    opcodes = _bits(asked.opcodes, _SIZES["RL_IMPAIR_OPCODES"])
    words = _SIZES["RL_IMPAIR_OPCODE_WORDS"]
    made["opcodes"] = [opcodes >> _WORD * word & 2**_WORD - 1 for word in range(words)]
    made["port"] = asked.port or 0
    for name, value in (("protocol", asked.protocol), ("ip_id", asked.ip_id), ("set_dscp", asked.dscp)):
        made[name] = _ANY if value is None else value
    made["place"] = place
    return made


def _bits(members: frozenset[int] | None, count: int) -> int:
    return 2**count - 1 if members is None else sum(1 << member for member in members)
