"""The work of a healthy fabric: seven sorts on topologies/incast.yaml, drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.rdma.measure import Verb
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.scenario.traffic.patterns import incast, ring

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from lab.scenario.stage import Stage

LEAVES: Final = (("h1", "h2", "h3", "h4"), ("h5", "h6", "h7", "h8"))
SENDERS: Final = ("h1", "h2", "h3")
HOLD: Final = 2.0


def _idle(stage: Stage, _: random.Random) -> str:
    with pinging(stage, "h1:h5", interval=0.1), stage.phase("baseline"):
        stage.hold(HOLD)
    return "pings"


def _busy(stage: Stage, chance: random.Random) -> str:
    """Each host writes to one and is written to by one: no link has more to carry than it can."""
    pairs = [pair for leaf in LEAVES for pair in ring(chance.sample(leaf, len(leaf)))]
    return _written(stage, pairs, *_sizes(chance))


def _incast(stage: Stage, chance: random.Random) -> str:
    qps, size = _sizes(chance)
    writers = incast(SENDERS, "h4")
    with stage.writing(writers[0], qps=qps, size=size), stage.phase("alone"):
        stage.hold(HOLD)
    with stage.writing(*writers, qps=qps, size=size), stage.phase("incast"):
        stage.hold(HOLD)
    return f"{', '.join(SENDERS)} to h4, {qps} QPs, {size} B"


def _across(stage: Stage, chance: random.Random) -> str:
    """One pair over both spines: by chance its QPs fill one uplink before the other."""
    src, dst = chance.sample(LEAVES, 2)
    return _written(stage, [f"{chance.choice(src)}:{chance.choice(dst)}"], chance.choice((8, 16)), 65536)


def _reads(stage: Stage, chance: random.Random) -> str:
    pairs = [pair for leaf in LEAVES for pair in ring(chance.sample(leaf, len(leaf)))][:4]
    with stage.writing(*pairs, verb=Verb.READ, size=chance.choice((4096, 65536))), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"reads {' '.join(pairs)}"


def _paced(stage: Stage, chance: random.Random) -> str:
    pace = chance.choice((50, 200, 1000))
    pairs = ring(chance.sample([host for leaf in LEAVES for host in leaf], 8))
    with stage.writing(*pairs, size=4096, pace=pace), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"{' '.join(pairs)}, {pace} messages a second"


def _beside_tcp(stage: Stage, chance: random.Random) -> str:
    """TCP in its own class on the way of RDMA."""
    src, dst = chance.sample(LEAVES[0], 2)
    other = next(host for host in LEAVES[0] if host not in {src, dst})
    rate = chance.choice((5, 20, 40)) * 10**6
    with streaming(stage, f"{other}:{dst}", rate=rate), stage.writing(f"{src}:{dst}"), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"{src}:{dst}, and TCP {other}:{dst} of {rate // 10**6} Mb/s"


def _sizes(chance: random.Random) -> tuple[int, int]:
    """QPs, and bytes of a message."""
    return chance.choice((1, 2, 4)), chance.choice((4096, 65536, 1 << 20))


def _written(stage: Stage, pairs: Sequence[str], qps: int, size: int) -> str:
    with stage.writing(*pairs, qps=qps, size=size), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"{' '.join(pairs)}, {qps} QPs, {size} B"


SORTS: Final[dict[str, Callable[[Stage, random.Random], str]]] = {
    "idle": _idle,
    "busy": _busy,
    "incast": _incast,
    "across": _across,
    "reads": _reads,
    "paced": _paced,
    "beside-tcp": _beside_tcp,
}
"""Each does its work in the phase that scenarios have before anything is broken, and says what it was."""
