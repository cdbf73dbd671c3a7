"""Recordings of scenarios that nobody played: phases, with what was counted, told and printed in each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.dataplane.port_layout import Drop
from lab.kernel.process import time_source
from lab.model.load import read_topology
from lab.model.qos.qos_store import dump_node
from lab.model.qos.resolve import resolve
from lab.scenario import library
from lab.scenario.judge import judge
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

_WORDS = {
    "marked": ("queue", "ecn_marked"), "not_ect": ("queue", "not_ect"), "refused": ("group", "drop_packets"),
    "tx_pause": ("priority", "tx_pause"), "tx_bytes": ("priority", "tx_bytes"),
    "tx_packets": ("priority", "tx_packets"), "rx_packets": ("priority", "rx_packets"),
}  # fmt: skip
"""Of priority, queue or group 3, or of another one that comes behind the word: tx_bytes0."""
_STEPS = 4

Counted = dict[str, dict[str, int]]
"""By port, ``h1:eth1``, or by host, how much each counter grows.

``depth`` and ``lost`` are of queue 3, ``lost0`` of queue 0. ``np_...`` and ``rp_...`` are of a NIC.
"""
Printed = tuple[str, str, str, int]
"""A command: its node, its words, what it printed, its exit code."""

Change = tuple[str, str, str, int]
"""A phase, a port or host, a counter, and by how much it grows instead."""


@dataclass
class Act:
    """What happens in a phase: counted, printed, told."""

    counted: Counted = field(default_factory=dict)
    ran: list[Printed] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)


Acts = dict[str, Act]
"""The phases of a run, in their order."""


def spoilt(acts: Acts, change: Change) -> Acts:
    """The same with one counter that grows otherwise."""
    phase, thing, word, amount = change
    counted = acts[phase].counted
    return {**acts, phase: replace(acts[phase], counted={**counted, thing: {**counted.get(thing, {}), word: amount}})}


def play(folder: Path, scenario: str, acts: Acts, at: str = "") -> Made:
    """The recording of a run on the scenario's fabric, a fifth of a second for each phase; not yet ended.

    ``at`` is the place to which the scenario was moved.
    """
    folder.mkdir(exist_ok=True)
    topology = read_topology(library.topology_of(library.find(scenario)))
    made = Made(folder / "run", topology, hosts=[host.name for host in topology.hosts])
    files.write_json(made.folder.facts("params"), {"scenario": scenario, "at": at, "seed": 1, "params": {}})
    qos = resolve(topology, time_source.reaction())
    files.write_json(made.folder.state("before"), {name: {"qos": dump_node(node)} for name, node in qos.items()})
    for name, act in acts.items():
        _depths(made, act)
        made.phase(name)
        _happens(made, act)
        for _ in range(_STEPS):
            made.sample()
        made.phase("")
    return made


def outcomes(made: Made) -> dict[str, str]:
    """What each check says of it, once it has ended."""
    return {name: verdict.outcome.value for name, verdict in judge(made.finished()).verdicts.items()}


def failing(folder: Path, scenario: str, acts: Acts) -> list[str]:
    """The checks that a run fails; none of the others may be unknown."""
    found = outcomes(play(folder, scenario, acts))
    assert "unknown" not in found.values(), found
    return [name for name, outcome in found.items() if outcome == "fail"]


def judging(
    good: Mapping[str, Acts], changes: Sequence[tuple[str, Change, str]], known: Collection[str] = ()
) -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    """Return three tests of scenarios: good runs pass, each change fails one check, incomplete runs are unknown.

    ``changes`` are a scenario, its change, and the check that fails. Checks in ``known`` need no phase "observe".
    """

    @pytest.mark.parametrize("scenario", good)
    def passes(scenario: str, tmp_path: Path) -> None:
        found = outcomes(play(tmp_path, scenario, good[scenario]))
        assert set(found.values()) == {"pass"}, found

    @pytest.mark.parametrize(("scenario", "change", "wrong"), changes)
    def fails(scenario: str, change: Change, wrong: str, tmp_path: Path) -> None:
        assert failing(tmp_path, scenario, spoilt(good[scenario], change)) == [wrong]

    @pytest.mark.parametrize("scenario", good)
    @pytest.mark.parametrize("gone", ["observe", "killed"])
    def is_unknown(scenario: str, gone: str, tmp_path: Path) -> None:
        if gone == "killed":
            found = judge(play(tmp_path, scenario, good[scenario]).killed()).verdicts
            assert {verdict.outcome.value for verdict in found.values()} == {"unknown"}
        else:
            rest = {name: act for name, act in good[scenario].items() if name != gone}
            told = outcomes(play(tmp_path, scenario, rest))
            assert {outcome for name, outcome in told.items() if name not in known} == {"unknown"}, told

    return passes, fails, is_unknown


def _depths(made: Made, act: Act) -> None:
    for thing, words in act.counted.items():
        if "depth" in words:
            made.counters(thing)["queue"]["depth_bytes"][3] = words["depth"]


def _happens(made: Made, act: Act) -> None:
    for thing, words in act.counted.items():
        for word, amount in words.items():
            _grow(made, thing, word, amount)
    for number, event in enumerate(act.events, 1):
        made.event(made.ns + number, **event)
    for node, argv, said, code in act.ran:
        told = {"node": node, "argv": argv.split(" "), "exit_code": code, "stdout": said, "stderr": ""}
        files.append_line(made.folder.commands, {"ns": made.ns, "end_ns": made.ns, **told})


def _grow(made: Made, thing: str, word: str, amount: int) -> None:
    if thing in made.hosts:
        made.devices[made.hosts.index(thing), RDMA.index(word)] += amount
    elif word == "lost":
        made.counters(thing)["queue"]["drop_packets"][3][Drop.HEADROOM] += amount
    elif word.startswith(("np_", "rp_")):
        made.counters(thing)[word] += amount
    elif word == "lost0":
        made.counters(thing)["queue"]["drop_packets"][0][Drop.LIMIT] += amount
    elif word != "depth":
        plain = word.rstrip("01234567")
        block, name = _WORDS[plain]
        made.counters(thing)[block][name][int(word.removeprefix(plain) or 3)] += amount
