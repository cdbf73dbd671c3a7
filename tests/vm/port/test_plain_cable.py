"""A longer cable on links that are only shaped, by netem: ping(8) tells by how much, and tc(8) that nothing is left.

h1 --20M-- leaf1 --20M, 2 ms-- h2
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from lab.errors import UsageError
from lab.faults import fault_engine
from tests.vm.faulty import built, inject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]
TOPOLOGY: Final = """
name: plain-cable
defaults: {rate: 20Mbit, mtu: 1500}
nodes: {leaf1: {role: leaf}, h1: {role: host}, h2: {role: host}}
links: [{ends: [h1, leaf1]}, {ends: [h2, leaf1], delay: 2ms}]
"""
OWN_MS: Final = 2 * 2.0
"""There and back over the link that has a delay of its own."""
HOST_MS: Final = 0.5
"""At most for all that nodes do; a packet is 47 us on the wire of a link that is not idle."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    with built(TOPOLOGY) as fabric:
        yield fabric


@pytest.fixture(autouse=True)
def healed(fabric: Fabric) -> Iterator[None]:
    yield
    fault_engine.heal(fabric)


def round_trip(fabric: Fabric) -> float:
    """The shortest of ten, in ms."""
    target = fabric.plan["h2"].interfaces["eth1"].address
    assert target is not None
    said = fabric.namespace("h1").run(["ping", "-n", "-c", "10", "-i", "0.05", str(target.ip)]).stdout
    return float(re.findall(r"= ([\d.]+)/", said)[0])


def queues(fabric: Fabric) -> list[str]:
    """Every queueing discipline with its parameters, those that tc does not show of itself too."""
    shown = ["tc", "-d", "qdisc", "show", "invisible"]
    return [fabric.namespace(name).run(shown).stdout for name in ("h1", "leaf1", "h2")]


@pytest.mark.parametrize(("place", "longer"), [("h1--leaf1", 2 * 5.0), ("h2--leaf1", 2 * 5.0), ("leaf1:swp1", 5.0)])
def test_a_cable_is_longer_by_what_was_asked_and_as_before_when_healed(
    fabric: Fabric, place: str, longer: float
) -> None:
    before = queues(fabric)
    assert OWN_MS <= round_trip(fabric) <= OWN_MS + HOST_MS
    entry = inject(fabric, f"link-delay {place} delay=5ms")
    assert OWN_MS + longer <= round_trip(fabric) <= OWN_MS + longer + HOST_MS
    assert fault_engine.heal(fabric, [entry.number]) == [entry]
    assert OWN_MS <= round_trip(fabric) <= OWN_MS + HOST_MS
    assert queues(fabric) == before


def test_the_rest_of_what_cables_do_is_the_lossless_ports(fabric: Fabric) -> None:
    with pytest.raises(UsageError, match="no lossless ports"):
        inject(fabric, "link-jitter h1--leaf1 jitter=1ms")
