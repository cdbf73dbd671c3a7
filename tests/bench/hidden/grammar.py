"""The grammar of faults outside the catalogue: a seed selects the fabric, the rule, and all that the rule draws.

A rule names an object that ordinary commands can change, and draws its place, value and rate. Nothing here is known
to ``lab.diagnose``, and no rule was chosen because a cause exists for it.
"""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Final

from lab.model.load import load_topology
from tests.bench.hidden.device_draws import DEVICE_DRAWS
from tests.bench.hidden.filter_draws import FILTER_DRAWS
from tests.bench.hidden.ground import Ground
from tests.bench.hidden.overlay_draws import OVERLAY_DRAWS
from tests.bench.hidden.port_draws import PORT_DRAWS
from tests.bench.hidden.route_draws import ROUTE_DRAWS, UNDERLAY_DRAWS
from tests.bench.hidden.wire_draws import WIRE_DRAWS
from tests.fabric.command import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.hidden.hidden_fault import HiddenFault

FABRICS: Final = ("clos-2x4", "rails", "roce-tenant")
"""A leaf-spine fabric, a rail-optimised one, and an overlay."""


def fabric_of(seed: int) -> str:
    """Return the fabric of a seed: they take turns."""
    return FABRICS[seed % len(FABRICS)]


def topology_text(fabric: str) -> str:
    """Return a fabric's topology file, with lossless ports at 100 Mb/s."""
    text = (TOPOLOGIES / f"{fabric}.yaml").read_text(encoding="utf-8")
    return text if "\nqos:" in text else f"{text.replace('rate: 1Gbit', 'rate: 100Mbit')}\nqos: pfc-ecn\n"


@functools.cache
def ground_of(fabric: str) -> Ground:
    """Return the objects of a fabric."""
    return Ground(load_topology(topology_text(fabric), fabric))


def rules(ground: Ground) -> tuple[Callable[[Ground, random.Random], HiddenFault], ...]:
    """Return the rules that apply to a fabric."""
    more = OVERLAY_DRAWS if ground.overlay else UNDERLAY_DRAWS if ground.uplinks else ()
    return (*FILTER_DRAWS, *ROUTE_DRAWS, *PORT_DRAWS, *WIRE_DRAWS, *DEVICE_DRAWS, *more)


def drawn(seed: int) -> HiddenFault:
    """Return the fault of a seed: the same at every call and on every machine."""
    chance, ground = random.Random(f"hidden-{seed}"), ground_of(fabric_of(seed))
    return chance.choice(rules(ground))(ground, chance)
