"""The page of every scenario: what its story is bound to, which time its faults cover, and where it opens.

A scenario's own code says what a recording of it has (tests/unit/report/outline.py).
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.load import read_topology
from lab.report.run_facts import ReportedFault, Span
from lab.report.scenario_text import story_of
from lab.report.steps import opening_of, steps_of
from lab.report.timeline_entry import TimelineEntry
from lab.scenario import library
from tests.unit.report.outline import Outline, outline


def facts_of(name: str) -> Any:
    """As much as the steps ask of the facts of a run."""
    scenario = library.find(name)
    made: Outline = outline(scenario)
    phases = tuple(Span(*phase) for phase in made.phases)
    faults = tuple(
        ReportedFault(each.kind, each.place, {}, "", each.start, each.end, story=each.start >= phases[0].start)
        for each in sorted(made.faults, key=lambda fault: fault.start)
    )
    return SimpleNamespace(
        phases=phases, faults=faults, standstills=(), seconds=made.now, busiest=0.0, story=story_of(scenario.text),
        settings=tuple(TimelineEntry(at, what, "") for at, what in made.settings),
        broken_from=next((fault.start for fault in faults if fault.story), 0.0),
    )  # fmt: skip


def steps(name: str) -> list[dict[str, Any]]:
    return steps_of(read_topology(library.topology_of(library.find(name))), facts_of(name))


def phase_at(facts: Any, at: float) -> str:
    return next((phase.name for phase in facts.phases if phase.start <= at < phase.end), "between")


@pytest.mark.parametrize("name", library.names())
def test_a_story_is_bound_to_its_run(name: str) -> None:
    facts, made = facts_of(name), steps(name)
    assert [step["text"] for step in made] == [sentence.text for sentence in facts.story.sentences]
    assert not [step["text"] for step in made if "  " in step["text"]], "a line of the figure"
    assert (made[0]["word"], made[0]["at"]) == ("Given", facts.phases[0].start)
    whens = [step for step in made if step["word"] == "When"]
    assert len({(step["at"], step["bound"]) for step in whens}) == len(whens)
    changes = [fault.start for fault in facts.faults if fault.story] + [each.at for each in facts.settings]
    for when in whens:
        assert when["at"] in changes or when["bound"].endswith("is healed") or when["bound"].startswith("phase ")
    for when in whens if any(facts.phases[0].start <= at for at in changes) else ():
        assert when["at"] > facts.phases[0].end - 1e-9 or len(whens) >= len(facts.phases) - 2, when
    for before, after in pairwise(made):
        assert before["at"] < after["at"] or before["word"] == "Given" or before["at"] == made[0]["at"]


@pytest.mark.parametrize("name", library.names())
def test_no_fault_covers_the_time_before_anything_is_wrong(name: str) -> None:
    facts = facts_of(name)
    healthy = facts.phases[0]
    assert not [fault for fault in facts.faults if fault.story and fault.start < healthy.end]


OPENED = {
    "incast": "incast", "malformed-pfc": "address", "sonic-tc3": "marked", "sonic-tc4": "dual-dcqcn",
    "sonic-tc6": "dual",
}  # fmt: skip
"""The phase where a page opens, if not observe."""


@pytest.mark.parametrize("name", library.names())
def test_a_page_opens_where_something_is_wrong(name: str) -> None:
    facts = facts_of(name)
    opened = phase_at(facts, opening_of(facts, steps(name)))
    names = [phase.name for phase in facts.phases]
    assert opened == OPENED.get(name, "observe")
    assert opened in names


BOUND = {
    "elephant-collision": ["baseline", "ecmp-hash is injected@inject", "observe", "verify", "verify"],
    "gid-index": ["baseline", "gid-moved is injected@inject", "observe", "observe", "fix", "verify"],
    "headroom-too-small": ["baseline", "link-delay is injected@inject", "alone", "observe", "set@fix", "verify"],
    "incast": ["job-alone", "alone", "alone", "incast", "incast", "incast"],
    "leaf-dies": [
        "baseline", "power-lost is injected@inject", "observe", "observe", "link-cut is injected@hang", "hang",
        "link-cut is healed@mend", "verify",
    ],
    "link-flap": [
        "baseline", "link-down is injected@observe", "observe", "observe", "link-down is healed@observe", "fix",
    ],
    "malformed-pfc": [
        "baseline", "malformed-pfc is injected@between", "address", "malformed-pfc is injected@between", "no-class",
        "malformed-pfc is injected@between", "vector", "malformed-pfc is healed@between", "fix",
    ],
    "parking-lot": ["baseline", "inject", "observe", "observe", "set@fix", "verify"],
    "pfc-deadlock": [
        "baseline", "static-route is injected@inject", "inject", "static-route is healed@inject", "observe",
        "set@fix", "verify",
    ],
    "pfc-watchdog-missing": [
        "baseline", "pause-storm is injected@between", "contained", "pause-storm is injected@between", "observe",
        "port-config is healed@fix", "verify",
    ],
    "rehash-on-failure": [
        "baseline", "link-down is injected@observe", "observe", "observe", "observe", "link-down is injected@verify",
        "verify",
    ],
    "spine-as-bottleneck": [
        "baseline", "broadcast-storm is injected@between", "few", "broadcast-storm is injected@inject", "observe",
        "observe", "observe", "broadcast-storm is healed@fix", "verify",
    ],
    "victim-flow": ["baseline", "inject", "observe", "observe", "set@fix", "verify"],
    "vlan-stp-blocked": [
        "baseline", "baseline", "baseline", "flood", "flood", "flood", "link-down is injected@inject", "observe",
        "observe", "link-down is healed@fix", "verify",
    ],
}  # fmt: skip
"""Of stories that are told otherwise than by one fault that comes and goes: what each sentence is bound to."""


@pytest.mark.parametrize("name", BOUND)
def test_each_sentence_is_where_it_is_true(name: str) -> None:
    facts = facts_of(name)
    settings = {setting.what for setting in facts.settings}
    found = []
    for step in steps(name):
        where = phase_at(facts, step["at"])
        what = "set" if step["bound"] in settings else step["bound"]
        found.append(where if what.startswith("phase ") else f"{what}@{where}")
    assert found == BOUND[name]
