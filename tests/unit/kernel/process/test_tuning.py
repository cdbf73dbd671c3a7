"""CPU masks as the kernel reads them, how much a shaped port queues, and what stops forwarding."""

import pytest

from lab.kernel.process import tuning
from lab.kernel.process.tuning import _cpu_mask
from lab.model.shaping import shaper_limit
from lab.units import WIRE_OVERHEAD


@pytest.mark.parametrize(
    ("cpu", "mask"),
    [
        (0, "1"),
        (5, "20"),
        (31, "80000000"),
        (32, "1,00000000"),
        (63, "80000000,00000000"),
        (64, "1,00000000,00000000"),
    ],
)
def test_a_cpu_is_one_bit_of_words_of_32(cpu: int, mask: str) -> None:
    """lib/bitmap.c: the highest word first, parted by commas."""
    assert _cpu_mask(cpu) == mask
    assert int(mask.replace(",", ""), 16) == 1 << cpu


def test_a_port_queues_5_ms_and_never_fewer_than_64_frames() -> None:
    assert shaper_limit(10**9, 9000) == 10**9 // 8 * 5 // 1000
    assert shaper_limit(20 * 10**6, 9000) == 64 * (9000 + WIRE_OVERHEAD)


ALL4, ALL6 = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"
OWN4, OWN6 = "net/ipv4/conf/eth1.10/forwarding", "net/ipv6/conf/eth1.10/force_forwarding"


@pytest.mark.parametrize(
    ("version", "values", "found"),
    [
        (4, {ALL4: "1", OWN4: "1"}, ""),
        (4, {ALL4: "0", OWN4: "0"}, ALL4),
        (4, {ALL4: "1", OWN4: "0"}, OWN4),
        (4, {ALL4: "0", OWN4: "1"}, ""),
        (4, {ALL4: "0"}, ""),
        (6, {ALL6: "1", OWN6: "0"}, ""),
        (6, {ALL6: "0", OWN6: "0"}, ALL6),
        (6, {ALL6: "0", OWN6: "1"}, ""),
        (6, {ALL6: "0"}, ALL6),
    ],
)
def test_the_sysctl_that_stops_forwarding_is_named(
    version: int, values: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ip_route_input_slow() of net/ipv4/route.c, and ip6_forward() of net/ipv6/ip6_output.c."""

    def read(names: list[str]) -> dict[str, str]:
        if missing := set(names) - set(values):
            raise FileNotFoundError(missing)
        return {name: values[name] for name in names}

    monkeypatch.setattr(tuning, "read_sysctls", read)
    assert tuning.forwarding_stopped(version, "eth1.10") == found
