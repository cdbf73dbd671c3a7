"""DSCP and ECN that change between two hops, in one file of mirrors; and what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.analysis import packets
from tests.unit.analysis.stories import timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.analysis.results.analysis_facts import CaptureFinding

US: Final = 1000
ROCE: Final = 26
ECT: Final = 2
CE: Final = 3
NOT: Final = 0


def hop(psn: int, ttl: int, dscp: int, ecn: int, path: packets.Path = packets.THERE) -> bytes:
    """A SEND as a router of its own sends it, with its TTL, DSCP and ECN."""
    frame = bytearray(packets.send(psn, path=path))
    if frame[12:14] == b"\x08\x00":
        frame[15], frame[22] = dscp << 2 | ecn, ttl
    else:
        first = int.from_bytes(frame[14:18]) & ~(0xFF << 20) | (dscp << 2 | ecn) << 20
        frame[14:18], frame[21] = first.to_bytes(4), ttl
    frame[5], frame[11] = ttl - 1, ttl
    return bytes(frame)


def mirrored(
    classes: Callable[[int], Iterable[tuple[int, int]]], path: packets.Path = packets.THERE
) -> list[CaptureFinding]:
    """40 SENDs from TTL 64 on, each with its DSCP and ECN at one hop after the other; no notes."""
    story = [
        (psn * 100 * US + place * US, 0, hop(psn, 64 - place, dscp, ecn, path))
        for psn in range(40)
        for place, (dscp, ecn) in enumerate(classes(psn))
    ]
    return [finding for finding in timed(*story).findings if not finding.note]


@pytest.mark.parametrize("path", [packets.THERE, packets.THERE6])
@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (lambda _: ((ROCE, ECT), (ROCE, ECT), (0, ECT)), "DSCP 26 at TTL 63, and 0 at TTL 62"),
        (lambda _: ((ROCE, ECT), (ROCE, NOT), (ROCE, NOT)), "ECT at TTL 64, and not at TTL 63"),
        (lambda psn: ((ROCE, ECT), (ROCE, CE if psn % 3 else ECT), (ROCE, ECT)), "CE at TTL 63, and not at TTL 62"),
    ],
    ids=["DSCP", "ECT", "CE"],
)
def test_the_hop_that_changes_the_class_is_named(
    classes: Callable[[int], Iterable[tuple[int, int]]], said: str, path: packets.Path
) -> None:
    (finding,) = mirrored(classes, path)
    assert finding.what.endswith(f"QP 0x22 at leaf1:swp1: {said}")


@pytest.mark.parametrize(
    "classes",
    [
        lambda _: ((ROCE, ECT),) * 3,
        lambda psn: ((ROCE, ECT), (ROCE, CE if psn % 3 else ECT), (ROCE, CE if psn % 3 else ECT)),
        lambda psn: ((ROCE if psn % 2 else 10, ECT),) * 3,
        lambda psn: ((ROCE, ECT if psn % 2 else NOT),) * 3,
    ],
    ids=["unchanged", "marked", "two DSCPs of the sender", "two ECNs of the sender"],
)
def test_what_a_sender_or_a_queue_decides_is_none(classes: Callable[[int], Iterable[tuple[int, int]]]) -> None:
    assert not [finding for finding in mirrored(classes) if "TTL" in finding.what]


def test_a_window_that_is_sent_again_on_a_longer_path_shows_no_change() -> None:
    """Half of the packets have a copy with a lower TTL. But none of the shorter path follows it."""
    story = [(psn * 10 * US, 0, hop(psn, 62, ROCE, CE)) for psn in range(40)]
    story += [((60 + psn) * 10 * US, 0, hop(psn, 60, 10, ECT)) for psn in range(20, 60)]
    assert not timed(*story).class_changes


def test_a_path_that_changes_its_length_changes_no_class() -> None:
    """Each packet is there once. A marked one that is sent again takes another path, and is not marked."""
    story = [(psn * 100 * US, 0, hop(psn, 62, ROCE, CE, packets.THERE)) for psn in range(40)]
    story += [(psn * 100 * US + 5000 * US, 0, hop(psn, 60, ROCE, ECT, packets.THERE)) for psn in range(35, 40)]
    story += [(psn * 100 * US + 5000 * US, 0, hop(psn, 60, ROCE, ECT, packets.THERE)) for psn in range(40, 80)]
    assert not [finding for finding in timed(*story).findings if "TTL" in finding.what]
