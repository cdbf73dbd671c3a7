"""Two elephants on one uplink: each pair gets half of what it had, and the other uplink stands idle.

Story
    Given  h1 writes to h5 and h2 to h6, each with one QP, which leaf1 happens to hash onto different uplinks
    When   leaf1 draws again, and both fall on the same one
    Then   each pair gets half, with nothing broken: two routes, two sessions, one idle uplink
    When   each pair has 32 QPs instead of one, under the same draw
    Then   both uplinks carry, and the pairs together get more than one link has

        h1 --+      +== spine1 ==+
             leaf1 =+            += leaf2 -- h5, h6
        h2 --+      +-- spine2 --+     idle

Numbers
    two flows on two uplinks collide in one draw of two; on n uplinks in one of n
    of 64 QPs the busier uplink has at most 1/2 + 5/(2 sqrt 64) = 81% (5 sigma), so that both pairs get 1/0.81 = 1.23
    links or more
    the path of a QP hangs on its UDP source port alone, which SoftRoCE makes of both ends' QP numbers
"""

from __future__ import annotations

import json
import re
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import RESENT

if TYPE_CHECKING:
    from lab.faults.ledger import Entry

PAIRS: Final = ("h1:h5", "h2:h6")
FLOWS: Final = (("10.0.0.1", "10.0.0.9", "swp3", "h1"), ("10.0.0.3", "10.0.0.11", "swp4", "h2"))
"""Source, destination, where leaf1 gets it from, and who sends."""
UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
RECEIVERS: Final = ("leaf2:swp3", "leaf2:swp4")
QPS: Final = 32
SIGMAS: Final = 5


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Apart, together, many."""
    with stage.writing(*PAIRS):
        ports = [_source_port(stage, host, src) for src, _, _, host in FLOWS]
        luck = _draw(stage, ports, uplinks=2)
        stage.hold(RESENT)
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            stage.heal(luck)
            _draw(stage, ports, uplinks=1)
            stage.hold(RESENT)
        with stage.phase("observe"):
            stage.hold(p.hold)
        stage.linger()
    with stage.writing(*PAIRS, qps=QPS, size=16384), stage.phase("verify"):
        stage.hold(p.hold)


def _source_port(stage: Stage, host: str, src: str) -> int:
    """The UDP source port of a host's only QP, as tcpdump sees it."""
    shown = stage.run(host, "tcpdump", "-i", "eth1", "-c", "1", "-n", f"src host {src} and udp dst port 4791").stdout
    return int(re.findall(rf"{re.escape(src)}\.(\d+) > ", shown)[0])


def _draw(stage: Stage, ports: list[int], uplinks: int) -> Entry:
    """Seeds of leaf1's hash, one after the other, until both flows take so many uplinks, as its kernel says."""
    for seed in count(stage.seed):
        drawn = stage.inject("ecmp-hash", "leaf1", seed=seed)
        used = set()
        for (src, dst, came, _), port in zip(FLOWS, ports, strict=True):
            flow = ["ipproto", "udp", "sport", str(port), "dport", "4791"]
            done = stage.run("leaf1", "ip", "-json", "route", "get", dst, "from", src, "iif", came, *flow)
            used.add(json.loads(done.stdout)[0]["dev"])
        if len(used) == uplinks:
            return drawn
        stage.heal(drawn)
    raise AssertionError  # there is always another seed


def _rates(rec: Recording, phase: str) -> list[float]:
    """What each pair gets, in Mb/s."""
    return [rec.port(port).tx_bytes(3).during(phase).rate() * 8 / 1e6 for port in RECEIVERS]


def each_gets_half(rec: Recording, p: Params) -> Verdict:
    """Together the pairs get what one link has, half each; apart each had that."""
    apart, together = _rates(rec, "baseline"), _rates(rec, "observe")
    told = " and ".join(f"{before:.1f} then {now:.1f} Mb/s" for before, now in zip(apart, together, strict=True))
    halves = all(abs(now - before / 2) < before / 20 for before, now in zip(apart, together, strict=True))
    return expect(min(apart) > 0 and halves, told)


def one_uplink_is_idle(rec: Recording, p: Params) -> Verdict:
    """Apart both carry, together one carries all."""
    apart, together = (
        sorted(rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS)
        for phase in ("baseline", "observe")
    )
    told = (
        f"{apart[0] / 1e6:.1f} and {apart[1] / 1e6:.1f} MB, then {together[0] / 1e6:.1f} and {together[1] / 1e6:.1f}"
    )
    return expect(apart[0] > 0 == together[0] and together[1] > 0, told)


def many_qps_spread(rec: Recording, p: Params) -> Verdict:
    """With many QPs the pairs get more than one link, by as much as the worst draw leaves."""
    least = 1 / (0.5 + SIGMAS / (2 * sqrt(len(PAIRS) * QPS)))
    together, many = sum(_rates(rec, "observe")), sum(_rates(rec, "verify"))
    return expect(
        many > least * together > 0,
        f"{many:.1f} Mb/s with {QPS} QPs each, {together:.1f} with one; {least:.2f} times or more",
    )


ANSWER: Final = StoryAnswer(
    cause="elephant-collision",
    where=("leaf1", "leaf1:swp1", "leaf1:swp2"),
    level=3,
    workload="h1 writes to h5 and h2 to h6, with one QP each",
    hints=(
        "each pair gets half of what its link carries, and nothing is down",
        "leaf1: one of its uplinks is full, and the other one idle",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab path h1 h5 and h2 h6, or ip route get on leaf1 with each QP's source port",
        "two next hops, ports hashed, and both QPs fall on the same one: bad luck",
    ),
    sign=(
        "two pairs with a QP each share an uplink beside an idle one, routes and hash being as they should "
        "(rocelab path)"
    ),
    because="Two QPs, two uplinks, and a hash that draws the same one for both: it happens in one of two draws.",
    fix="More QPs for each pair, or a path for each: under the same draw 32 QPs spread over both uplinks.",
    prevention="Several QPs for each pair, or paths that are assigned; watch Jain's index of uplinks.",
)

SCENARIO = Scenario(
    "elephant-collision",
    "incast.yaml",
    Params,
    run,
    (each_gets_half, one_uplink_is_idle, many_qps_spread),
    answer=ANSWER,
)
