"""The stories with a training job: each check has a recording that it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.jobs.rank_schedule import OperationKind
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training
from lab.scenario.traffic.training import PER_BYTE, JobInPhase
from scenarios import (
    checkpoint_hits_training,
    ecmp_collision_of_rings,
    link_loss_mid_step,
    one_slow_link_slows_all,
    rail_misaligned_placement,
    straggler_host,
)
from tests.unit.scenario.tale import Ranks, Tale, failing, outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOSTS = ("h1", "h2", "h3")
FOUR = (*HOSTS, "h4")
SLOW_LINK, STRAGGLER, LOSS = "one-slow-link-slows-all", "straggler-host", "link-loss-mid-step"
RAILS, CHECKPOINT = "rail-misaligned-placement", "checkpoint-hits-training"
RINGS = "ecmp-collision-of-rings"
CROSSING = ("h1", "h2", "h5", "h6")
ECN = "ecn-off-by-3kb-256"
MARKED_RING = ("h3", "h1", "h7", "h5")
ITS_RATE, ITS_RANKS, ITS_MARKS = (
    "the-job-runs-at-60",
    "the-ranks-at-leaf2-need-longest",
    "the-ramp-explains-the-marks",
)
STORM, TREE = "pfc-storm-stalls-every-job", "ring-against-tree"
LOSES_THE_PAUSE = "a-step-of-each-job-is-longer-by-the-pause"
BESIDE, LESS = "sums-take-what-their-bytes-take-beside-the-incast", "the-tree-loses-more-than-the-ring"
ON_ITS_OWN = "alone-a-sum-takes-what-its-bytes-take"


def step(
    compute: float, transfer: float, hosts: tuple[str, ...] = HOSTS, **others: tuple[float, float]
) -> list[Ranks]:
    """A step, in which all ranks but ``others`` need the same ms."""
    return [{host: others.get(host, (compute, transfer)) for host in hosts}]


def marked(depth: int, share: float, h3: int, h7: int) -> dict[str, float]:
    """The growth of counters at leaf2's port to h5, with a depth and a share of marks, and CNPs of two senders."""
    counts = {"tx_prio3_packets": 10_000, "queue3_ecn_marked": 10_000 * share, "queue3_depth_bytes": depth}
    ports = {f"leaf2:swp2 {name}": amount for name, amount in counts.items()}
    return {**ports, "h3:eth1 rp_cnp_handled": h3, "h7:eth1 rp_cnp_handled": h7}


FIRST, SECOND = step(1300, 164, ("h1", "h4")), step(100, 162, ("h2", "h5"))
RECEIVING = {f"{leaf}:{port} tx_prio3_bytes": 800_000.0 for leaf in ("leaf1", "leaf2") for port in ("swp2", "swp3")}


ALONE = step(100, 154)
JOBS: Mapping[str, Mapping[str, list[Ranks]]] = {
    SLOW_LINK: {"baseline": ALONE, "observe": step(100, 546), "verify": ALONE},
    STRAGGLER: {"baseline": ALONE, "observe": step(100, 154, h3=(200, 154)), "verify": ALONE},
    RAILS: {
        "baseline": step(100, 170, FOUR),
        "observe": step(100, 310, FOUR),
        "verify": step(100, 170, FOUR),
    },
    CHECKPOINT: {"baseline": ALONE, "observe": step(100, 420), "verify": step(100, 220)},
    RINGS: {
        "baseline": step(100, 420, CROSSING),
        "observe": step(100, 811, CROSSING),
        "verify": step(100, 421, CROSSING),
    },
    STORM: {
        "baseline first": FIRST,
        "inject first": FIRST + step(1300, 1164, ("h1", "h4")),
        "verify first": FIRST,
        "baseline second": SECOND * 5,
        "inject second": SECOND + step(100, 1130, ("h2", "h5")) + SECOND,
        "verify second": SECOND,
    },
    TREE: {
        "ring-alone ring": step(20, 154),
        "tree-alone tree": step(20, 420),
        "observe ring": step(20, 258),
        "fan-in tree": step(20, 601),
        "verify ring": step(20, 155),
        "verify tree": step(20, 421),
    },
    ECN: {
        "baseline": step(5, 800, MARKED_RING),
        "observe": step(5, 1100, MARKED_RING, h7=(5, 1295), h5=(5, 1290)),
        "verify": step(5, 806, MARKED_RING),
    },
    LOSS: {"baseline": step(20, 30), "observe": step(20, 30) + step(20, 1103) + step(20, 30), "verify": step(20, 30)},
}
COUNTED: Mapping[str, Tale] = {
    SLOW_LINK: {"baseline": {}, "observe": {"h2:eth1 rx_prio3_pause": 80}, "verify": {}},
    STRAGGLER: {"baseline": {}, "observe": {}, "verify": {}},
    RAILS: {
        "baseline": {"h1:eth1 tx_prio3_bytes": 40_000, "h2:eth1 tx_prio3_bytes": 40_000},
        "observe": {
            **{f"{nic} tx_prio3_bytes": 10_000 for nic in ("h1:eth1", "h2:eth2", "h3:eth1", "h4:eth2")},
            "leaf1:swp1 tx_prio3_bytes": 20_000, "leaf2:swp1 tx_prio3_bytes": 20_000,
            "leaf1:swp1 queue3_depth_bytes": 270_000, "leaf2:swp1 queue3_depth_bytes": 250_000,
        },
        "verify": {
            "h1:eth1 tx_prio3_bytes": 40_000,
            "leaf1:swp1 queue3_depth_bytes": 0, "leaf2:swp1 queue3_depth_bytes": 0,
        },
    },
    CHECKPOINT: {
        "baseline": {},
        "observe": {f"{host}:eth1 rx_prio3_pause": 40 for host in HOSTS},
        "verify": {f"{host}:eth1 rx_prio4_pause": 30 for host in HOSTS},
    },
    RINGS: {
        "baseline": {"leaf1:swp1 tx_prio3_bytes": 20_000, "leaf1:swp2 tx_prio3_bytes": 20_000},
        "observe": {"leaf1:swp2 tx_prio3_bytes": 40_000, "leaf1:swp2 queue3_depth_bytes": 250_000},
        "verify": {
            "leaf1:swp1 tx_prio3_bytes": 20_000, "leaf1:swp2 tx_prio3_bytes": 20_000,
            "leaf1:swp2 queue3_depth_bytes": 4_000,
        },
    },
    STORM: {
        "baseline": RECEIVING,
        "inject": {"leaf2:swp2 rx_prio3_pause": 8, "leaf2:swp2 rx_prio3_pause_duration": 1_500_000},
        "observe": {"spine1:swp2 rx_prio3_pause": 1, "spine1:swp2 rx_prio3_pause_duration": 1_000_000},
        "fix": {},
        "verify": RECEIVING,
    },
    TREE: {
        "ring-alone": {"leaf1:swp3 tx_prio3_bytes": 2 * 1_622_000},
        "tree-alone": {"leaf1:swp3 tx_prio3_bytes": 2 * 2_433_000},
        "observe": {},
        "fan-in": {},
        "verify": {},
    },
    ECN: {
        "baseline": marked(24_062, 0.28, 180, 176),
        "observe": marked(21_962, 0.38, 160, 290),
        "verify": marked(24_062, 0.27, 172, 181),
    },
    LOSS: {"baseline": {}, "observe": {"h2 completer_retry_err": 1}, "verify": {}},
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_a_good_one_passes(name: str, tmp_path: Path) -> None:
    found = outcomes(tmp_path, name, COUNTED[name], 2.0, jobs=JOBS[name])
    assert set(found.values()) == {"pass"}, found


def test_storms_that_a_challenge_repeats_are_not_those_of_the_recorded_steps(tmp_path: Path) -> None:
    """It repeats jobs and storm until it is answered, and records neither; ports count the pauses."""
    again = {f"{port} {name}": more for port in ("leaf2:swp2", "spine1:swp2") for name, more in REPEATED.items()}
    tale: dict[str, Any] = {}
    for phase, growth in COUNTED[STORM].items():
        tale |= {"again": again, phase: growth} if phase == "verify" else {phase: growth}
    found = outcomes(tmp_path, STORM, tale, 2.0, jobs=JOBS[STORM])
    assert set(found.values()) == {"pass"}, found


REPEATED = {"rx_prio3_pause": 8, "rx_prio3_pause_duration": 1_200_000}


@pytest.mark.parametrize(
    ("name", "phase", "job", "wrong"),
    [
        (SLOW_LINK, "observe", step(100, 530), {"a-step-is-longer-by-the-slow-link"}),
        (SLOW_LINK, "observe", step(100, 560), {"a-step-is-longer-by-the-slow-link"}),
        (SLOW_LINK, "observe", step(100, 536, h3=(115, 536)), {"all-ranks-wait-alike"}),
        (SLOW_LINK, "observe", step(100, 546, h2=(100, 526)), {"all-ranks-wait-alike"}),
        (SLOW_LINK, "verify", step(100, 170), {"the-job-recovers"}),
        (STRAGGLER, "observe", step(200, 154), {"the-others-wait-for-it"}),
        (STRAGGLER, "observe", step(100, 154, h2=(200, 154)), {"the-others-wait-for-it"}),
        (
            STRAGGLER, "observe", step(100, 154, h3=(185, 154)),
            {"a-step-is-longer-by-the-computation", "the-others-wait-for-it"},
        ),
        (
            STRAGGLER, "observe", step(100, 165, h3=(200, 165)),
            {"a-step-is-longer-by-the-computation", "the-network-is-as-fast-as-before"},
        ),
        (STRAGGLER, "verify", step(100, 164), {"the-job-recovers"}),
        (RAILS, "observe", step(100, 290, FOUR), {"a-step-is-longer-by-the-shared-uplinks"}),
        (RAILS, "observe", step(100, 330, FOUR), {"a-step-is-longer-by-the-shared-uplinks"}),
        (RAILS, "baseline", step(100, 140, FOUR), {"a-step-is-longer-by-the-shared-uplinks", "the-job-recovers"}),
        (RAILS, "verify", step(100, 180, FOUR), {"the-job-recovers"}),
        (CHECKPOINT, "observe", step(100, 380), {"a-step-takes-more-than-twice-as-long"}),
        (CHECKPOINT, "verify", step(100, 180), {"the-ring-has-what-is-left"}),
        (CHECKPOINT, "verify", step(100, 265), {"the-ring-has-what-is-left"}),
        (RINGS, "observe", step(100, 790, CROSSING), {"a-step-is-longer-by-the-shared-uplink"}),
        (RINGS, "observe", step(100, 832, CROSSING), {"a-step-is-longer-by-the-shared-uplink"}),
        (RINGS, "observe", step(100, 420, CROSSING), {"a-step-is-longer-by-the-shared-uplink"}),
        (
            RINGS, "baseline", step(100, 445, CROSSING),
            {"a-step-takes-what-its-links-allow", "a-step-is-longer-by-the-shared-uplink", "the-job-recovers"},
        ),
        (RINGS, "verify", step(100, 438, CROSSING), {"the-job-recovers"}),
        (STORM, "inject second", SECOND * 7, {LOSES_THE_PAUSE}),
        (STORM, "inject second", step(100, 1130, ("h2", "h5")) * 2, {LOSES_THE_PAUSE}),
        (STORM, "inject first", FIRST + step(1300, 1130, ("h1", "h4")), {LOSES_THE_PAUSE}),
        (STORM, "inject first", FIRST + step(1300, 1340, ("h1", "h4")), {LOSES_THE_PAUSE}),
        (STORM, "verify second", step(100, 180, ("h2", "h5")), {"both-jobs-recover"}),
        (TREE, "observe ring", step(20, 154), {BESIDE, LESS}),
        (TREE, "observe ring", step(20, 235), {BESIDE}),
        (TREE, "observe ring", step(20, 290), {BESIDE}),
        (TREE, "fan-in tree", step(20, 526), {BESIDE}),
        (TREE, "fan-in tree", step(20, 650), {BESIDE}),
        (TREE, "ring-alone ring", step(20, 180), {ON_ITS_OWN, LESS, "the-jobs-recover"}),
        (TREE, "verify tree", step(20, 460), {"the-jobs-recover"}),
        (ECN, "observe", step(5, 1000, MARKED_RING, h7=(5, 1170), h5=(5, 1170)), {ITS_RATE}),
        (ECN, "observe", step(5, 1000, MARKED_RING, h7=(5, 1480), h5=(5, 1480)), {ITS_RATE}),
        (ECN, "observe", step(5, 1295, MARKED_RING), {ITS_RANKS}),
        (ECN, "observe", step(5, 1295, MARKED_RING, h3=(5, 1300), h5=(5, 1298), h7=(5, 1299)), {ITS_RANKS}),
        (ECN, "observe", step(5, 1100, MARKED_RING, h7=(105, 1295), h5=(5, 1290)), {ITS_RANKS}),
        (ECN, "baseline", step(5, 700, MARKED_RING), {ITS_RATE, "the-job-recovers"}),
        (ECN, "verify", step(5, 900, MARKED_RING), {ITS_RATE, "the-job-recovers"}),
        (LOSS, "observe", step(20, 30) + step(20, 530), {"one-step-is-longer-by-the-timeout"}),
        (LOSS, "observe", step(20, 1280), {"one-step-is-longer-by-the-timeout"}),
        (LOSS, "observe", step(20, 50) + step(20, 1103), {"one-step-is-longer-by-the-timeout"}),
        (LOSS, "verify", step(20, 40), {"the-job-recovers"}),
    ],
)  # fmt: skip
def test_each_figure_of_a_job_can_fail(
    name: str, phase: str, job: list[Ranks], wrong: set[str], tmp_path: Path
) -> None:
    jobs = {**JOBS[name], phase: job}
    assert failing(tmp_path, name, COUNTED[name], {}, seconds=2.0, jobs=jobs) == wrong


OF_COUNTERS: list[tuple[str, Tale, str]] = [
    (SLOW_LINK, {"observe": {"h2:eth1 rx_prio3_pause": 0}}, "the-leaf-pauses-the-writer"),
    (SLOW_LINK, {"verify": {"h2:eth1 rx_prio3_pause": 1}}, "the-leaf-pauses-the-writer"),
    (SLOW_LINK, {"observe": {"leaf1:swp4 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    (STRAGGLER, {"observe": {"leaf1:swp4 queue3_drop_headroom_packets": 1}}, "nothing-alarms"),
    (RAILS, {"observe": {"leaf2:swp1 tx_prio3_bytes": 15_000}}, "the-ring-crosses-the-spine"),
    (RAILS, {"verify": {"leaf1:swp1 tx_prio3_bytes": 100}}, "the-ring-crosses-the-spine"),
    (RAILS, {"observe": {"leaf2:swp1 queue3_depth_bytes": 149_000}}, "parts-wait-at-the-uplinks"),
    (RAILS, {"baseline": {"leaf1:swp1 queue3_depth_bytes": 4000}}, "parts-wait-at-the-uplinks"),
    (RAILS, {"observe": {"leaf1:swp2 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    (CHECKPOINT, {"observe": {"h2:eth1 rx_prio3_pause": 0}}, "all-hosts-are-paused"),
    (CHECKPOINT, {"verify": {"h2:eth1 rx_prio3_pause": 1}}, "all-hosts-are-paused"),
    (CHECKPOINT, {"verify": {"h3:eth1 rx_prio4_pause": 0}}, "only-the-checkpoint-is-paused"),
    (CHECKPOINT, {"observe": {"leaf1:swp4 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    (RINGS, {"observe": {"leaf1:swp1 tx_prio3_bytes": 500}}, "one-uplink-is-idle"),
    (RINGS, {"verify": {"leaf1:swp1 tx_prio3_bytes": 100}}, "one-uplink-is-idle"),
    (RINGS, {"observe": {"leaf1:swp2 queue3_depth_bytes": 30_000}}, "packets-wait-at-the-uplink"),
    (RINGS, {"observe": {"leaf1:swp2 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    (STORM, {"observe": {"leaf2:swp3 tx_prio3_bytes": 4000}}, "both-jobs-stand-still"),
    (STORM, {"verify": {"spine1:swp2 rx_prio3_pause": 1}}, "the-pause-passes-leaf2"),
    (STORM, {"inject": {"spine1:swp2 rx_prio3_pause": 1}}, "the-pause-passes-leaf2"),
    (
        STORM,
        {"inject": {"leaf2:swp2 rx_prio3_pause": 0}, "fix": {"leaf2:swp2 rx_prio3_pause": 1}},
        "the-pause-passes-leaf2",
    ),
    (STORM, {"inject": {"leaf2:swp2 rx_prio3_pause_duration": 300_000}}, "the-pause-passes-leaf2"),
    (STORM, {"observe": {"leaf2:swp2 queue3_drop_watchdog_packets": 1}}, "nothing-is-lost"),
    (TREE, {"tree-alone": {"leaf1:swp3 tx_prio3_bytes": 2 * 1_622_000}}, "the-tree-fans-in-at-the-host"),
    (TREE, {"ring-alone": {"leaf1:swp3 tx_prio3_bytes": 2 * 2_433_000}}, "the-tree-fans-in-at-the-host"),
    (TREE, {"observe": {"leaf1:swp4 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    (ECN, {"observe": marked(21_962, 0.41, 160, 290)}, ITS_MARKS),
    (ECN, {"baseline": marked(24_062, 0.25, 180, 176)}, ITS_MARKS),
    (ECN, {"observe": marked(26_000, 0.82, 160, 290)}, "leaf2-marks-more-at-no-larger-depth"),
    (ECN, {"observe": marked(20_900, 0.26, 160, 290)}, "leaf2-marks-more-at-no-larger-depth"),
    (ECN, {"observe": marked(21_962, 0.38, 160, 240)}, "h7-gets-more-cnps"),
    (ECN, {"observe": marked(21_962, 0.38, 250, 290)}, "h7-gets-more-cnps"),
    (ECN, {"verify": marked(24_062, 0.27, 172, 250)}, "h7-gets-more-cnps"),
    (ECN, {"observe": {"leaf2:swp2 queue3_drop_headroom_packets": 1}}, "nothing-alarms"),
    (LOSS, {"verify": {"h1 completer_retry_err": 1}}, "the-qps-retransmit"),
    (LOSS, {"observe": {"h2 completer_retry_err": 0}}, "the-qps-retransmit"),
]


@pytest.mark.parametrize(("name", "changes", "wrong"), OF_COUNTERS)
def test_each_counter_can_fail(name: str, changes: Tale, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, name, COUNTED[name], changes, seconds=2.0, jobs=JOBS[name]) == {wrong}


def test_the_bounds_are_those_of_one_sum_in_a_step() -> None:
    """Buckets would have smaller parts of the ring than the 400 kB of the stories' arithmetic."""
    for story in (one_slow_link_slows_all, straggler_host, link_loss_mid_step, checkpoint_hits_training):
        made = training_schedule(load_training(story.JOB, "story"), HOSTS)
        for operations in made.variants[0]:
            sizes = [each.size for each in operations if each.kind is OperationKind.ALLREDUCE]
            assert sizes == [one_slow_link_slows_all.SIZE], story.SCENARIO.name
    job = rail_misaligned_placement.job_of(rail_misaligned_placement.MISALIGNED)
    made = training_schedule(load_training(job, "story"), FOUR)
    sums = [each.size for each in made.variants[0][0] if each.kind is OperationKind.ALLREDUCE]
    assert sums == [rail_misaligned_placement.SIZE]
    job = ecmp_collision_of_rings.job_of(ecmp_collision_of_rings.TOGETHER)
    made = training_schedule(load_training(job, "story"), ecmp_collision_of_rings.TOGETHER)
    rings = {group for group in made.groups if len(group) == 2}
    assert {(0, 2), (1, 3)} <= {tuple(group) for group in rings}
    part = one_slow_link_slows_all.SIZE / 3 * PER_BYTE
    assert pytest.approx(part * 8 / 100e6) == link_loss_mid_step.PART


def test_a_barrier_that_loses_its_packets_belongs_to_the_step_before() -> None:
    """The step itself is as long as the others."""
    ms = 10**6
    times = ((0, 200), (1300, 1500), (1510, 1710))
    rows = [[{"begin": begin * ms, "compute": 0, "communication": (end - begin) * ms}] for begin, end in times]
    job = JobInPhase(tuple(map(tuple, rows)))
    assert job.times_s == pytest.approx((0.2, 0.2, 0.2))
    assert job.spans_s == pytest.approx((1.3, 0.21, 0.2))


@pytest.mark.parametrize("name", JOBS)
def test_steps_are_unknown_without_a_job(name: str, tmp_path: Path) -> None:
    found = outcomes(tmp_path, name, COUNTED[name])
    rest = {check for check, outcome in found.items() if outcome != "unknown"}
    assert rest <= {wrong for _, _, wrong in OF_COUNTERS} | {"no-link-or-session-changes"}


def test_a_job_whose_rank_lacks_a_step_is_unknown(tmp_path: Path) -> None:
    (ranks,) = JOBS[STRAGGLER]["observe"]
    torn = [ranks, {host: ranks[host] for host in HOSTS[:2]}]
    found = outcomes(tmp_path, STRAGGLER, COUNTED[STRAGGLER], jobs={**JOBS[STRAGGLER], "observe": torn})
    assert found["the-others-wait-for-it"] == "unknown"


def test_a_link_that_goes_down_is_another_story(tmp_path: Path) -> None:
    down = {"source": "kernel", "kind": "link", "node": "leaf1", "interface": "swp5", "up": False}
    found = failing(tmp_path, LOSS, COUNTED[LOSS], {}, {"observe": [(500, down)]}, seconds=2.0, jobs=JOBS[LOSS])
    assert found == {"no-link-or-session-changes"}
