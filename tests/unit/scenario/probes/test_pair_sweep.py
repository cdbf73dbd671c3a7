"""Between which NICs a pair sweep sends, and that it says why it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.kernel.packets.sweep import SweepFlow, Tally
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.scenario.probes import pair_sweep
from lab.scenario.probes.pair_sweep import sweep_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.scenario.stage import Stage

TOPOLOGY = load_topology(
    "name: swept\ndefaults: {rate: 100Mbit, mtu: 9000}\nqos: pfc-ecn\n"
    "generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 2}\n"
)
HOSTS = ["h1", "h2", "h3", "h4"]


class Sweeping:
    """A stage and a sweep that keep what they are given; every third packet of h4 is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes: list[dict[str, Any]] = []
        self.flows: list[SweepFlow] = []
        self.overrun = False
        fabric = SimpleNamespace(
            topology=TOPOLOGY, plan=plan_addresses(TOPOLOGY), namespace=lambda node: f"rl-swept-{node}"
        )
        recorder = SimpleNamespace(note=lambda text, **data: self.notes.append({"text": text, **data}))
        self.stage: Stage = SimpleNamespace(fabric=fabric, recorder=recorder)  # type: ignore[assignment]
        monkeypatch.setattr(pair_sweep, "sweep", self.sweep)

    def sweep(self, flows: Sequence[SweepFlow], *_: object) -> list[Tally] | None:
        self.flows = list(flows)
        if self.overrun:
            return None
        return [
            Tally(sent=3, came=2) if "h4" in str(each.sender) else Tally(sent=3, came=3, delays=[50_000, 40_000])
            for each in flows
        ]


@pytest.fixture
def sweeping(monkeypatch: pytest.MonkeyPatch) -> Sweeping:
    return Sweeping(monkeypatch)


def test_each_nic_sends_to_each_other(sweeping: Sweeping) -> None:
    sweep_pairs(sweeping.stage)
    (note,) = sweeping.notes
    assert note["text"] == "swept pairs"
    assert {(src, dst) for src, dst, *_ in note["pairs"]} == {(a, b) for a in HOSTS for b in HOSTS if a != b}
    assert next(pair for pair in note["pairs"] if pair[0] == "h4")[2:] == [3, 2, None]
    assert next(pair for pair in note["pairs"] if pair[0] == "h1")[2:] == [3, 3, 40_000]
    assert all(flow.interface == "eth1" and flow.src != flow.dst for flow in sweeping.flows)


@pytest.mark.parametrize(("again", "least"), [(40_000, 40_000), (900_000, 900_000)], ids=["busy", "slow"])
def test_late_packets_are_confirmed_by_further_rounds(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch, again: int, least: int
) -> None:
    """A machine that was busy for some milliseconds has no slow link."""
    delays = [950_000, again]

    def sweep(flows: Sequence[SweepFlow], *_: object) -> list[Tally]:
        late = delays.pop(0)
        return [Tally(3, 3, delays=[late if "h1" in str(each.receiver) else 40_000]) for each in flows]

    monkeypatch.setattr(pair_sweep, "sweep", sweep)
    sweep_pairs(sweeping.stage)
    assert not delays
    assert {(dst == "h1", *rest) for _, dst, *rest in sweeping.notes[0]["pairs"]} == {
        (True, 6, 6, least), (False, 6, 6, 40_000),
    }  # fmt: skip


def test_the_first_packets_of_each_round_are_no_slow_link(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are late on a busy machine, also when the rounds are repeated in the same order."""

    def sweep(flows: Sequence[SweepFlow], *_: object) -> list[Tally]:
        return [Tally(3, 3, delays=[600_000 if number < 3 else 40_000]) for number, _ in enumerate(flows)]

    monkeypatch.setattr(pair_sweep, "sweep", sweep)
    sweep_pairs(sweeping.stage)
    (note,) = sweeping.notes
    assert {pair[-1] for pair in note["pairs"]} == {40_000}


def test_absent_hosts_are_left_out(sweeping: Sweeping) -> None:
    sweep_pairs(sweeping.stage, {"h2", "spine1"})
    assert {host for src, dst, *_ in sweeping.notes[0]["pairs"] for host in (src, dst)} == {"h1", "h3", "h4"}


def test_too_many_pairs_are_not_swept_and_a_note_says_so(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_sweep, "MOST", 11)
    sweep_pairs(sweeping.stage)
    assert not sweeping.flows
    assert sweeping.notes == [
        {"text": "held back", "said": "a sweep between all pairs of NICs: 12 directed pairs, of 11 at most"}
    ]


def test_a_receiver_that_was_overrun_is_noted(sweeping: Sweeping) -> None:
    sweeping.overrun = True
    sweep_pairs(sweeping.stage)
    assert sweeping.notes == [
        {"text": "held back", "said": "a sweep between all pairs of NICs: a receiver's buffer overflowed"}
    ]
