"""Faults drawn at random for the fabric of incast.yaml: elsewhere, and of other rates and sizes than in scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

HOSTS: Final = {"leaf1": ("h1", "h2", "h3", "h4"), "leaf2": ("h5", "h6", "h7", "h8")}
SPINES: Final = ("spine1", "spine2")
_LEAVES: Final = tuple(HOSTS)

Fault: TypeAlias = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Drawn:
    """A drawn fault, the traffic meanwhile, and the right diagnosis."""

    cause: str
    faults: tuple[Fault, ...]
    """Kind, place and parameters of each."""
    where: tuple[str, ...]
    """A right place is, or is within, all of them."""
    pairs: tuple[str, ...]
    """Pairs of hosts; the first of each writes to the second."""
    qps: int = 1
    standing: int = 0
    """Packets that each pair keeps under way, in place of all that it can."""
    settings: tuple[tuple[str, str], ...] = ()
    """Ports, and what is set there before anything begins."""
    probed: tuple[str, ...] = ()
    """Hosts that the first one pings, with small and with large packets."""
    flaps: bool = False
    """Whether it is healed while it is looked at."""

    def __str__(self) -> str:
        told = [
            f"{kind} {place} {' '.join(f'{name}={of}' for name, of in p.items())}" for kind, place, p in self.faults
        ]
        return f"{'; '.join(each.strip() for each in told)}; {' '.join(self.pairs)}"


def drawn(cause: str, chance: random.Random) -> Drawn:
    """A fault that is called so."""
    return _DRAWS[cause](chance)


def _up(leaf: str, spine: str) -> str:
    return f"{leaf}:swp{SPINES.index(spine) + 1}"


def _down(spine: str, leaf: str) -> str:
    return f"{spine}:swp{_LEAVES.index(leaf) + 1}"


def _access(host: str) -> str:
    leaf = next(leaf for leaf, hosts in HOSTS.items() if host in hosts)
    return f"{leaf}:swp{HOSTS[leaf].index(host) + len(SPINES) + 1}"


def _ends(chance: random.Random) -> tuple[str, str, str]:
    """A leaf, the other one, and a spine."""
    src, dst = chance.sample(_LEAVES, 2)
    return src, dst, chance.choice(SPINES)


def _across(chance: random.Random, src: str, dst: str, count: int) -> tuple[str, ...]:
    """So many pairs from a leaf to the other one."""
    hosts = zip(chance.sample(HOSTS[src], count), chance.sample(HOSTS[dst], count), strict=True)
    return tuple(":".join(pair) for pair in hosts)


def _two_to_one(chance: random.Random) -> dict[str, tuple[str, str, str]]:
    """At each leaf two senders and who receives from both."""
    found = {leaf: chance.sample(hosts, 3) for leaf, hosts in HOSTS.items()}
    return {leaf: (hosts[0], hosts[1], hosts[2]) for leaf, hosts in found.items()}


def _written(chosen: Mapping[str, tuple[str, str, str]]) -> tuple[str, ...]:
    return tuple(f"{src}:{to}" for *senders, to in chosen.values() for src in senders)


def _gray_loss(chance: random.Random) -> Drawn:
    src, dst, spine = _ends(chance)
    port = chance.choice((_up(src, spine), _down(spine, dst)))
    lossy = ("link-loss", port, {"one_in": chance.choice((16, 32, 64, 128, 256)), "priority": "3"})
    return Drawn("gray-loss", (lossy,), (port,), _across(chance, src, dst, chance.choice((1, 2))), qps=8)


def _mtu(chance: random.Random) -> Drawn:
    src, dst, spine = _ends(chance)
    takes, link = chance.choice(((_down(spine, src), f"{src}--{spine}"), (_up(dst, spine), f"{spine}--{dst}")))
    narrow = ("link-mtu", takes, {"mtu": chance.choice((1500, 2000, 4000))})
    pairs = _across(chance, src, dst, 1)
    return Drawn("mtu-black-hole", (narrow,), (link,), pairs, qps=16, probed=HOSTS[dst])


def _one_sided(chance: random.Random) -> Drawn:
    leaf = chance.choice(_LEAVES)
    receiver, *senders = chance.sample(HOSTS[leaf], 4)
    deaf = chance.sample(senders, chance.choice((1, 2, 3)))
    faults: tuple[Fault, ...] = tuple(("pauses-ignored", host, {}) for host in deaf)
    return Drawn("pfc-one-sided", faults, tuple(deaf), tuple(f"{host}:{receiver}" for host in senders), qps=4)


def _slow_receiver(chance: random.Random) -> Drawn:
    to, src = chance.sample([host for hosts in HOSTS.values() for host in hosts], 2)
    slow = ("slow-receiver", to, {"rate": f"{chance.randint(10, 70)}Mbit"})
    return Drawn("slow-receiver", (slow,), (to,), (f"{src}:{to}",), qps=chance.choice((1, 4)))


def _ecn_missing(chance: random.Random) -> Drawn:
    leaf = chance.choice(_LEAVES)
    off = ("port-config", leaf, {"set": "ecn.3.enabled=false"})
    return Drawn("ecn-missing-one-leaf", (off,), (leaf,), _written(_two_to_one(chance)))


def _ecn_too_low(chance: random.Random) -> Drawn:
    chosen = _two_to_one(chance)
    queues = [_access(to) for *_, to in chosen.values()]
    port = chance.choice(queues)
    kmin = chance.choice((4186, 8372))
    low = ("port-config", port, {"set": f"ecn.3.kmin={kmin}B ecn.3.kmax={2 * kmin}B"})
    slow = ((",".join(queues), "rate=25Mbit"),)
    return Drawn("ecn-too-low", (low,), (port,), _written(chosen), standing=4, settings=slow)


def _not_ect(chance: random.Random) -> Drawn:
    chosen = _two_to_one(chance)
    *senders, _ = chosen[chance.choice(_LEAVES)]
    faults: tuple[Fault, ...] = tuple(("not-ect", host, {}) for host in senders)
    return Drawn("not-ect", faults, tuple(senders), _written(chosen))


def _dscp_map(chance: random.Random) -> Drawn:
    src, dst, spine = _ends(chance)
    mapped = ("port-config", spine, {"set": f"map.dscp.26={chance.choice((0, 1, 2, 4))}"})
    to = chance.choice(HOSTS[dst])
    pairs = tuple(f"{host}:{to}" for host in chance.sample(HOSTS[src], 2))
    return Drawn("dscp-map-mismatch", (mapped,), (spine,), pairs, qps=8)


def _one_path(chance: random.Random) -> Drawn:
    src, dst, _ = _ends(chance)
    return Drawn("one-path-only", (("one-path", src, {}),), (src,), _across(chance, src, dst, 1), qps=16)


def _acl(chance: random.Random) -> Drawn:
    src, dst, spine = _ends(chance)
    node = chance.choice((src, dst, spine))
    pairs = _across(chance, src, dst, chance.choice((1, 2)))
    return Drawn("acl-4791", (("udp-filtered", node, {}),), (node,), pairs, qps=8, probed=HOSTS[dst][:1])


def _storm(chance: random.Random) -> Drawn:
    src, dst, _ = _ends(chance)
    pairs = _across(chance, src, dst, 2)
    stuck = pairs[0].partition(":")[2]
    held = ((",".join(f"{pair.partition(':')[0]}:eth1" for pair in pairs), f"rate={chance.randint(30, 45)}Mbit"),)
    return Drawn("pfc-storm", (("pause-storm", stuck, {}),), (stuck,), pairs, qps=8, settings=held)


def _headroom(chance: random.Random) -> Drawn:
    leaf = chance.choice(_LEAVES)
    receiver, *senders = chance.sample(HOSTS[leaf], 4)
    longer = {"delay": f"{chance.randint(1500, 3000)}us"}
    faults = tuple(("link-delay", f"{host}--{leaf}", longer) for host in senders)
    return Drawn("headroom-too-small", faults, (leaf,), tuple(f"{host}:{receiver}" for host in senders))


def _flap(chance: random.Random) -> Drawn:
    src, dst, spine = _ends(chance)
    end = chance.choice((_up(src, spine), _down(spine, src), _up(dst, spine), _down(spine, dst)))
    leaf = src if end in {_up(src, spine), _down(spine, src)} else dst
    pairs = _across(chance, src, dst, 2)
    return Drawn("link-flap", (("link-down", end, {}),), (f"{leaf}--{spine}",), pairs, qps=8, flaps=True)


def _stale(chance: random.Random) -> Drawn:
    src, dst, _ = _ends(chance)
    pairs = _across(chance, src, dst, 2)
    host = pairs[0].partition(":")[2]
    entry = ("stale-neighbour", _access(host), {"of": f"10.0.0.{2 * _number(host) + 1}"})
    return Drawn("stale-neighbour", (entry,), (_access(host),), pairs, qps=4)


def _wrong_address(chance: random.Random) -> Drawn:
    src, dst, _ = _ends(chance)
    pairs = _across(chance, src, dst, 2)
    host = pairs[0].partition(":")[chance.choice((0, 2))]
    address = chance.choice((f"10.0.0.{2 * _number(host) + 1}/24", f"10.7.0.{chance.randint(1, 200)}/31"))
    return Drawn("wrong-address", (("wrong-address", host, {"address": address}),), (host,), pairs, qps=4)


def _number(host: str) -> int:
    """Its rank, from 0: the fabric's host links are numbered so."""
    return [each for hosts in HOSTS.values() for each in hosts].index(host)


_DRAWS: Final[dict[str, Callable[[random.Random], Drawn]]] = {
    "gray-loss": _gray_loss,
    "mtu-black-hole": _mtu,
    "pfc-one-sided": _one_sided,
    "slow-receiver": _slow_receiver,
    "ecn-missing-one-leaf": _ecn_missing,
    "ecn-too-low": _ecn_too_low,
    "not-ect": _not_ect,
    "dscp-map-mismatch": _dscp_map,
    "one-path-only": _one_path,
    "acl-4791": _acl,
    "pfc-storm": _storm,
    "headroom-too-small": _headroom,
    "link-flap": _flap,
    "stale-neighbour": _stale,
    "wrong-address": _wrong_address,
}
CAUSES: Final = tuple(_DRAWS)
