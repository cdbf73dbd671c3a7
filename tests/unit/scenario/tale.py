"""Made recordings of scenarios: what each counter grew by in each phase, by the names that operators know."""

from __future__ import annotations

import re
from statistics import median_low
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.model.load import read_topology
from lab.model.qos.headroom import VIRTUAL_REACTION
from lab.model.qos.qos_store import dump_node
from lab.model.qos.resolve import resolve
from lab.scenario import library
from lab.scenario.judge import judge
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import RDMA, STEP, Made

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lab.model.topology import Topology

Growth: TypeAlias = dict[str, float]
"""By how much counters grow, ``h4:eth1 tx_prio3_pause`` of a port or ``h4 out_of_seq_request`` of an RDMA device.

Where hosts have several NICs, a device is ``h4:eth1``, too.
"""
Tale: TypeAlias = dict[str, Growth]
"""What happens in each phase."""
Told: TypeAlias = "Sequence[tuple[int, dict[str, Any]]]"
"""Events of a phase: ms from its beginning, and what they tell."""
Ranks: TypeAlias = "Mapping[str, tuple[float, float]]"
"""A step of a job: by host, the ms of its computation, and of its collective once all ranks have begun it."""
Line: TypeAlias = "tuple[files.RecordKind, dict[str, Any]]"
"""A record, without its time."""

NS: Final = 10**9
MBIT: Final = 10**6 // 8
"""Bytes in a second."""
_NUMBERED: Final = re.compile(r"^((?:rx|tx)_prio|queue|pg)(\d)_")
_BY_NAME: Final = {counter.name: counter for counter in COUNTERS}


def outcomes(
    folder: Path,
    scenario: str,
    tale: Tale,
    seconds: float = 1.0,
    events: Mapping[str, Told] = MappingProxyType({}),
    *,
    at: str = "",
    jobs: Mapping[str, Sequence[Ranks]] = MappingProxyType({}),
    lines: Mapping[str, Sequence[Line]] = MappingProxyType({}),
) -> dict[str, str]:
    """What the checks say of a recording with these phases, each of so many seconds, as ``pass``, ``fail`` or so.

    Counters grow meanwhile; gauges are set before it begins. ``events`` are those of each phase, and ``jobs`` the
    steps of the job that runs in it. If several jobs do, each has a key like ``observe second``, with its name.
    ``lines`` are further records of each phase, at its beginning.
    """
    topology = read_topology(library.topology_of(library.find(scenario)))
    nics = [nic for host in topology.hosts for nic in _nics(topology, host.name)]
    making = Made(folder / "run", topology, hosts=nics)
    files.write_json(making.folder.facts("params"), {"scenario": scenario, "at": at, "seed": 1, "params": {}})
    nodes = resolve(topology, VIRTUAL_REACTION)
    files.write_json(making.folder.state("before"), {name: {"qos": dump_node(node)} for name, node in nodes.items()})
    for name, growth in tale.items():
        for key, amount in growth.items():
            _write(making, key, amount, gauge=True)
        making.phase(name)
        for after, event in events.get(name, ()):
            making.event(making.ns + after * 10**6, **event)
        for key, steps in jobs.items():
            phase, _, job = key.partition(" ")
            for row in _job_rows(making.ns, steps if phase == name else (), job or "ring"):
                files.append_line(making.folder.job_steps, row)
        for kind, line in lines.get(name, ()):
            files.append_line(making.folder.records(kind), {"ns": making.ns, "end_ns": making.ns, **line})
        for key, amount in growth.items():
            _write(making, key, amount, gauge=False)
        making.ns += int(seconds * NS) - STEP
        making.phase("")
    return {check: verdict.outcome.value for check, verdict in judge(making.finished()).verdicts.items()}


def failing(
    folder: Path,
    scenario: str,
    tale: Tale,
    changes: Tale,
    events: Mapping[str, Told] = MappingProxyType({}),
    *,
    seconds: float = 1.0,
    jobs: Mapping[str, Sequence[Ranks]] = MappingProxyType({}),
    lines: Mapping[str, Sequence[Line]] = MappingProxyType({}),
) -> set[str]:
    """The checks that fail where a phase has other counts; all others pass, or this raises."""
    changed = {name: {**growth, **changes.get(name, {})} for name, growth in tale.items()}
    found = outcomes(folder, scenario, changed, seconds, events, jobs=jobs, lines=lines)
    assert set(found.values()) <= {"pass", "fail"}, found
    return {check for check, outcome in found.items() if outcome == "fail"}


def together(*growths: Growth) -> Growth:
    """One after the other: the last that names a counter counts."""
    return {key: amount for growth in growths for key, amount in growth.items()}


def each(keys: Iterable[str], counter: str, amount: float) -> Growth:
    """The same for several ports."""
    return {f"{key} {counter}": amount for key in keys}


def sent(rates: Mapping[str, float], priority: int = 3) -> Growth:
    """Bytes that ports send in a second at so many Mb/s."""
    return {f"{port} tx_prio{priority}_bytes": rate * MBIT for port, rate in rates.items()}


def _nics(topology: Topology, host: str) -> list[str]:
    """The name of a host with one NIC, or of each NIC of a host with several."""
    ends = [str(link.end_at(host)) for link in topology.links_of(host)]
    return ends if len(ends) > 1 else [host]


def _job_rows(ns: int, steps: Sequence[Ranks], job: str) -> Iterator[dict[str, Any]]:
    """Steps one after the other from a time, as a training job records them. All ranks begin a step at once."""
    began = ns
    for number, ranks in enumerate(steps, 1):
        ready = {host: int(compute * 10**6) for host, (compute, _) in ranks.items()}
        last, median, ends = max(ready.values()), median_low(ready.values()), []
        for rank, (host, (_, transfer)) in enumerate(ranks.items()):
            ends.append(last + int(transfer * 10**6))
            yield {
                "ns": ns + ends[-1], "job": job, "began": began, "rank": rank, "node": host, "interface": "eth1",
                "step": number, "begin": ns, "compute": ready[host], "communication": ends[-1] - ready[host],
                "waiting": last - ready[host], "late": ready[host] - median,
            }  # fmt: skip
        ns += max(ends)


def _write(making: Made, key: str, amount: float, *, gauge: bool) -> None:
    place, _, name = key.partition(" ")
    if name in RDMA:
        making.devices[making.hosts.index(place), RDMA.index(name)] += 0 if gauge else int(amount)
        return
    number = _NUMBERED.match(name)
    counter = _BY_NAME[_NUMBERED.sub(r"\1{n}_", name)]
    node = making.numbering.nodes[place.partition(":")[0]]
    record: Any = making.maps.counters[node.first + 1 + node.devices.index(place.partition(":")[2])]
    index: Any = counter.field
    if counter.scope is not CounterScope.PORT:
        assert number is not None
        record, index = record[counter.scope.value][counter.field], int(number[2])
    if counter.reason is not None:
        record, index = record[index], counter.reason
    if counter.gauge and gauge:
        record[index] = int(amount)
    elif not counter.gauge and not gauge:
        record[index] += int(amount) * counter.unit
