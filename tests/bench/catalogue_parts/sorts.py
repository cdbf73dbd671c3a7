"""The work of a healthy fabric: seven sorts and four more, drawn at random, on any topology.

Hosts are grouped by their leaf. In an overlay, the hosts of the largest tenant or network work.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.model.overlay.tenancy import reach_of_ends
from lab.rdma.measure import Verb
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.scenario.traffic.patterns import all_to_all, incast, ring
from lab.scenario.traffic.training import train

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from lab.model.topology import Endpoint, Topology
    from lab.scenario.stage import Stage

HOLD: Final = 2.0
_TOGETHER: Final = 4
"""At most so many hosts of an all-to-all or a job: the emulated CPU carries their packets."""


def leaves(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Return the hosts behind each leaf that reach one another, by their first link.

    >>> from pathlib import Path
    >>> from lab.model.load import read_topology
    >>> leaves(read_topology(Path("topologies/tenant.yaml")))
    (('h1',), ('h3',), ('h5',))
    """
    networks = topology.overlay.networks if topology.overlay is not None else ()
    own = {each.end: network.name for network in networks for each in network.attachments if not each.tagged}
    reach: Mapping[Endpoint, object] = {**own, **reach_of_ends(topology)}
    found: dict[object, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host in topology.hosts:
        end = topology.links_of(host.name)[0].end_at(host.name)
        leaf = topology.links_of(host.name)[0].other(end).node
        found[reach.get(end)][leaf].append(host.name)
    largest = max(found.values(), key=lambda groups: sum(map(len, groups.values())))
    return tuple(map(tuple, largest.values()))


def _hosts(stage: Stage) -> list[str]:
    return [host for leaf in leaves(stage.fabric.topology) for host in leaf]


def _rings(stage: Stage, chance: random.Random) -> list[str]:
    """A ring within each leaf, or over all leaves if they have too few hosts."""
    own = [leaf for leaf in leaves(stage.fabric.topology) if len(leaf) > 1] or [tuple(_hosts(stage))]
    return [pair for leaf in own for pair in ring(chance.sample(leaf, len(leaf)))]


def _idle(stage: Stage, _: random.Random) -> str:
    first, *_others, last = _hosts(stage)
    with pinging(stage, f"{first}:{last}", interval=0.1), stage.phase("baseline"):
        stage.hold(HOLD)
    return "pings"


def _busy(stage: Stage, chance: random.Random) -> str:
    """Each host writes to one and is written to by one: no link has more to carry than it can."""
    return _written(stage, _rings(stage, chance), *_sizes(chance))


def _incast(stage: Stage, chance: random.Random) -> str:
    qps, size = _sizes(chance)
    near = max(leaves(stage.fabric.topology), key=len)
    *senders, receiver = near if len(near) > 2 else _hosts(stage)
    writers = incast(senders, receiver)
    with stage.writing(writers[0], qps=qps, size=size), stage.phase("alone"):
        stage.hold(HOLD)
    with stage.writing(*writers, qps=qps, size=size), stage.phase("incast"):
        stage.hold(HOLD)
    return f"{', '.join(senders)} to {receiver}, {qps} QPs, {size} B"


def _across(stage: Stage, chance: random.Random) -> str:
    """One pair over both spines: by chance its QPs fill one uplink before the other."""
    own = leaves(stage.fabric.topology)
    src, dst = chance.sample(own if len(own) > 1 else [(host,) for host in own[0]], 2)
    return _written(stage, [f"{chance.choice(src)}:{chance.choice(dst)}"], chance.choice((8, 16)), 65536)


def _reads(stage: Stage, chance: random.Random) -> str:
    pairs = _rings(stage, chance)[:4]
    with stage.writing(*pairs, verb=Verb.READ, size=chance.choice((4096, 65536))), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"reads {' '.join(pairs)}"


def _paced(stage: Stage, chance: random.Random) -> str:
    pace = chance.choice((50, 200, 1000))
    hosts = _hosts(stage)
    pairs = ring(chance.sample(hosts, len(hosts)))
    with stage.writing(*pairs, size=4096, pace=pace), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"{' '.join(pairs)}, {pace} messages a second"


def _beside_tcp(stage: Stage, chance: random.Random) -> str:
    """TCP in its own class on the way of RDMA."""
    near = max(leaves(stage.fabric.topology), key=len)
    hosts = near if len(near) > 2 else _hosts(stage)
    src, dst, *others = chance.sample(hosts, min(3, len(hosts)))
    other = [*others, src][0]
    rate = chance.choice((5, 20, 40)) * 10**6
    with streaming(stage, f"{other}:{dst}", rate=rate), stage.writing(f"{src}:{dst}"), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"{src}:{dst}, and TCP {other}:{dst} of {rate // 10**6} Mb/s"


def _tcp(stage: Stage, chance: random.Random) -> str:
    """TCP only, also without RDMA: each host sends to the next, and all links have room."""
    hosts = _hosts(stage)
    pairs, rate = ring(chance.sample(hosts, len(hosts))), chance.choice((1, 5, 10)) * 10**6
    with streaming(stage, *pairs, rate=rate), stage.phase("baseline"):
        stage.hold(HOLD)
    return f"TCP {' '.join(pairs)} of {rate // 10**6} Mb/s"


def _all_to_all(stage: Stage, chance: random.Random) -> str:
    """Each host writes to every other, so that each is an incast of all, and uplinks are full."""
    hosts = _some(stage, chance)
    return _written(stage, all_to_all(hosts), 1, chance.choice((4096, 65536)))


def _far_incast(stage: Stage, chance: random.Random) -> str:
    """All hosts write to one: pauses of the last leaf reach the hosts of the others."""
    hosts = chance.sample(_hosts(stage), len(_hosts(stage)))
    return _written(stage, incast(hosts[1:], hosts[0]), *_sizes(chance))


def _job(stage: Stage, chance: random.Random) -> str:
    """A training job: each step computes, and then all links are full for a short time."""
    hosts, algorithm = _some(stage, chance), chance.choice(("ring", "tree"))
    size, compute = chance.choice((300_000, 600_000, 1_200_000)), chance.choice((20, 100, 300))
    job = (
        f"{{name: healthy, hosts: [{', '.join(hosts)}], steps: 8, compute: {compute}ms, allreduce: {size}, "
        f"algorithm: {algorithm}, data: {{buckets: 1}}}}"
    )
    with stage.phase("baseline"):
        train(stage, job)
    return f"{algorithm} of {', '.join(hosts)}, {size} B each {compute} ms"


def _some(stage: Stage, chance: random.Random) -> list[str]:
    hosts = _hosts(stage)
    return chance.sample(hosts, min(len(hosts), _TOGETHER))


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
MORE_SORTS: Final[dict[str, Callable[[Stage, random.Random], str]]] = {
    **SORTS,
    "all-to-all": _all_to_all,
    "far-incast": _far_incast,
    "job": _job,
    "tcp": _tcp,
}
"""These and others, for the alert rules. Checks of scenarios do not fit them, and a far incast is a parking lot."""
WITHOUT_RDMA: Final = ("idle", "tcp")
"""The sorts that need no RDMA."""
