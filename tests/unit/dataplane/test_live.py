"""Records written under the programs' eyes: what they can see between two words."""

from typing import Any

import numpy as np
import pytest

from lab.dataplane import configure, reconfigure
from lab.dataplane.numbering import number_ports
from lab.dataplane.port_layout import CONFIG
from lab.model.addressing import plan_addresses
from lab.model.qos.change import change
from lab.model.qos.resolve import resolve
from lab.model.topology import Role
from tests.unit.dataplane.made_maps import configured
from tests.unit.model.qos.fabrics import fabric

TOPOLOGY = fabric("pfc-ecn")
QOS = resolve(TOPOLOGY)
NODE = number_ports(TOPOLOGY).nodes["leaf1"]
PLAN = plan_addresses(TOPOLOGY)["leaf1"]


class Watched:
    """A record's eight queues or groups that note the whole of one after each word that is written to it."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self.seen: list[dict[str, int]] = []

    def __getitem__(self, name: str) -> Any:
        return _Column(self, self._items, name)


class _Column:
    def __init__(self, watched: Watched, items: Any, name: str) -> None:
        self._watched, self._items, self._name = watched, items, name

    def __getitem__(self, number: int) -> Any:
        return self._items[self._name][number]

    def __setitem__(self, number: int, value: Any) -> None:
        self._items[self._name][number] = value
        item = self._items[number]
        self._watched.seen.append({name: int(item[name]) for name in item.dtype.names})


def queue(kmin: int, kmax: int, pmax: int) -> dict[str, int]:
    return {"kmin": kmin, "kmax": kmax, "pmax": pmax, "limit": 0, "weight": 0}


def as_record(field: str, values: dict[str, int]) -> Any:
    record = np.zeros(1, CONFIG)
    for name, value in values.items():
        record[field][name][0, 3] = value
    return record[field][0]


OFF = queue(0, 0, 0)
CURVES = [OFF, queue(10, 40, 5), queue(50, 90, 9), queue(20, 20, 9), queue(90, 91, 1)]


@pytest.mark.parametrize("before", CURVES)
@pytest.mark.parametrize("after", CURVES)
def test_a_queue_never_marks_by_half_a_curve(before: dict[str, int], after: dict[str, int]) -> None:
    watched = Watched(as_record("queue", before))
    reconfigure._write_queue(watched, 3, as_record("queue", after)[3])  # type: ignore[arg-type]
    assert watched.seen[-1] == after
    for seen in watched.seen:
        on = seen["kmax"] != 0
        assert not on or seen["kmin"] <= seen["kmax"]
        if OFF in (before, after) and on:
            assert {name: seen[name] for name in ("kmin", "kmax", "pmax")} in [
                {name: curve[name] for name in ("kmin", "kmax", "pmax")} for curve in (before, after)
            ]


@pytest.mark.parametrize(("before", "after"), [((256, 0), (0, 60_000)), ((0, 60_000), (128, 0))])
def test_a_group_always_has_a_threshold(before: tuple[int, int], after: tuple[int, int]) -> None:
    """With alpha 0 the static threshold holds, and it must not be 0 for a moment: everything would pause."""
    watched = Watched(as_record("group", {"alpha": before[0], "xoff": before[1]}))
    reconfigure._write_group(watched, 3, as_record("group", {"alpha": after[0], "xoff": after[1]})[3])  # type: ignore[arg-type]
    assert all(seen["alpha"] or seen["xoff"] for seen in watched.seen)
    assert (watched.seen[-1]["alpha"], watched.seen[-1]["xoff"]) == after


@pytest.mark.parametrize(("before", "after"), [({}, {"react": 1, "notify": 1}), ({"react": 1, "notify": 1}, {})])
def test_a_nic_never_reacts_by_half_a_set_of_registers(before: dict[str, int], after: dict[str, int]) -> None:
    """Whether congestion control is turned on or off: while it is on, all registers are there."""
    registers = {"rpg_time_reset": 300, "rpg_ai_rate": 5, "dce_tcp_rtt": 1, "min_time_between_cnps": 4}
    place, fresh = np.zeros(1, CONFIG)["cc"], np.zeros(1, CONFIG)["cc"][0]
    for name, value in (before | registers if before else {}).items():
        place[name] = value
    for name, value in (after | registers if after else {}).items():
        fresh[name] = value
    seen = []

    class Column:
        def __init__(self, name: str) -> None:
            self.name = name

        def __setitem__(self, number: int, value: Any) -> None:
            place[self.name][number] = value
            seen.append({name: int(place[name][0]) for name in (*registers, "react", "notify")})

    class Record:
        dtype = place.dtype

        def __getitem__(self, name: str) -> Column:
            return Column(name)

    reconfigure._write_cc(Record(), fresh)  # type: ignore[arg-type]
    assert place[0] == fresh
    for now in seen:
        if now["react"] or now["notify"]:
            assert {name: now[name] for name in registers} == registers


def test_a_change_reaches_the_record_and_leaves_what_is_counted() -> None:
    maps = configured(TOPOLOGY)
    maps.nodes["pool_used"][NODE.number] = 1234
    changed = change(QOS["leaf1"], Role.LEAF, ["swp3"], ["ecn.3.kmin=20KB", "pfc.tx=false", "buffer.pool=2MB"])
    reconfigure.rewrite(maps, NODE, changed, PLAN)
    mac = PLAN.interfaces["swp3"].mac
    assert maps.config[NODE.port("swp3")] == configure.port_record(changed.ports["swp3"], NODE, "swp3", mac)
    assert maps.nodes["pool_bytes"][NODE.number] == changed.shared
    assert maps.nodes["pool_used"][NODE.number] == 1234
    assert not any(reconfigure.differences(maps, NODE, changed, PLAN).values())


def test_what_the_kernel_has_otherwise_is_named() -> None:
    maps = configured(TOPOLOGY)
    port = NODE.port("swp3")
    maps.config["queue"]["kmin"][port, 3] += 1
    maps.config["group"]["lossless"][port, 0] = 1
    maps.config["rate"][port] = 1
    maps.config["dscp_to_priority"][port, 26] = 0
    found = reconfigure.differences(maps, NODE, QOS["leaf1"], PLAN)
    assert found.pop("swp3") == ["rate", "dscp_to_priority", "queue[3].kmin", "group[0].lossless"]
    assert not any(found.values())


def test_a_hosts_drain_has_a_record_of_its_own() -> None:
    node, maps = number_ports(TOPOLOGY).nodes["h1"], configured(TOPOLOGY)
    slow = change(QOS["h1"], Role.HOST, ["eth1"], ["nic.drain=20Mbit"])
    reconfigure.rewrite(maps, node, slow, plan_addresses(TOPOLOGY)["h1"])
    assert maps.config["rate"][node.drain("eth1")] == 20_000_000
    assert maps.config["rate"][node.port("eth1")] == 100_000_000
    assert maps.nodes["drain_rate"][node.number] == 20_000_000
