"""Packets lost on a plain link of a fabric, by whatever kernel this is: exactly those, and no device says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lab.dataplane import impair
from lab.dataplane.impair import ImpairmentHook
from lab.kernel.netlink.tc_hooks import Hook
from lab.kernel.process.netns import Namespace
from lab.model.impairment import Impairment, Traffic
from tests import splitmix
from tests.fabric import snapshot
from tests.fabric.command import hosts, rocelab, rocelab_json
from tests.pings import Echoes
from tests.pings import ping as paced

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

NAME = "impaired"
SEED = 20161
PINGS = 300
TAIL = 100
LEAF, H1 = (Namespace(f"rl-{NAME}.{node}") for node in ("leaf", "h1"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """h1 -- leaf -- h2, for a while; the address of h2."""
    before = snapshot.take()
    rocelab("up", hosts(tmp_path_factory.mktemp("impaired"), NAME, "h1", "h2"))
    said = Namespace(f"rl-{NAME}.h2").run(["ip", "-json", "-4", "address", "show", "eth1"]).stdout
    yield str(json.loads(said)[0]["addr_info"][0]["local"])
    impair.apply(place(), Impairment(loss=1.0, traffic=frozenset(Traffic)))
    rocelab("down", "--fabric", NAME)
    assert before.differences(snapshot.take()) == [], "an impairment goes with its fabric"


def ping(space: Namespace, address: str, count: int, *words: str) -> Echoes:
    """The answers to ``count`` echo requests, with ``TAIL`` more behind them.

    ping(8) waits for the last answer as long as for one interval, here 5 ms: too short on a busy host. The tail gives
    the others half a second.
    """
    echoes = paced(space, address, count + TAIL, *words)
    return Echoes(count, tuple(each for each in echoes.answers if each[0] < count))


def place(order: int = 1) -> ImpairmentHook:
    """The packets that the leaf receives from h1."""
    (link,) = json.loads(LEAF.run(["ip", "-json", "link", "show", "swp1"]).stdout)
    return ImpairmentHook(LEAF, link["ifindex"], Hook.INGRESS, order)


def shown() -> str:
    """All qdiscs and filters of the leaf's end, and its counters of errors and drops."""
    filters = LEAF.run(["tc", "filter", "show", "dev", "swp1", "ingress"]).stdout
    (link,) = json.loads(LEAF.run(["ip", "-json", "-s", "link", "show", "swp1"]).stdout)
    errors = [(way, name, link["stats64"][way][name]) for way in ("rx", "tx") for name in ("errors", "dropped")]
    return f"{LEAF.run(['tc', 'qdisc', 'show', 'dev', 'swp1']).stdout}{filters}{errors}"


def test_pings_are_lost_as_the_seed_says(target: str) -> None:
    assert ping(H1, target, 20).lost == []
    before, healthy = shown(), rocelab_json("status", "--fabric", NAME)["nodes"]
    impair.apply(place(), Impairment(loss=0.1, seed=SEED))
    echoes = ping(H1, target, PINGS)
    done = impair.read(place())
    assert echoes.lost == splitmix.chosen(SEED, splitmix.LOSS, PINGS, 0.1)
    lost = splitmix.chosen(SEED, splitmix.LOSS, PINGS + TAIL, 0.1)
    assert (done.matched, done.lost) == (PINGS + TAIL, len(lost))
    impaired = rocelab_json("status", "--fabric", NAME)["nodes"]
    impair.remove(place())
    for then, now in zip(healthy, impaired, strict=True):
        assert {name: each["drops"] for name, each in now["interfaces"].items()} == {
            name: each["drops"] for name, each in then["interfaces"].items()
        }
    assert shown() == before
    assert ping(H1, target, 20).lost == []


def test_only_what_matches_is_lost(target: str) -> None:
    """Packets of 500 bytes and more, and of those one in three."""
    impair.apply(place(), Impairment(lose_every=3, min_size=500, protocol=1))
    try:
        assert ping(H1, target, 30, "-s", "471").lost == []
        assert ping(H1, target, 30, "-s", "472").lost == list(range(2, 30, 3))
        assert impair.read(place()).seen >= 60
    finally:
        impair.remove(place())


def test_neighbours_are_found_while_all_data_is_lost(target: str) -> None:
    impair.apply(place(), Impairment(loss=1.0))
    try:
        H1.run(["ip", "neigh", "flush", "dev", "eth1"])
        assert ping(H1, target, 5).lost == list(range(5))
        states = [
            each["state"] for each in json.loads(H1.run(["ip", "-json", "neigh", "show", "dev", "eth1"]).stdout)
        ]
        assert ["REACHABLE"] in states
    finally:
        impair.remove(place())
