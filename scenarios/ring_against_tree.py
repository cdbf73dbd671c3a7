"""A ring against a tree: the same AllReduce by both, while an incast takes half of one host's link.

Story
    Given  h1, h2 and h3 train: in each step they compute for 20 ms, and then sum their gradients
    And    first by a ring, and then by a tree, whose inner node is h1: h2 and h3 send all of their gradients to it
    When   h4 and h5 write to h1, and so take half of its link
    Then   the sum by the ring takes what its bytes take at half of the rate, and every rank waits for h1's part
    And    the sum by the tree loses more: the gradients of both children fan in at h1. No packet is lost
    When   the incast has ended
    Then   steps take as long as before

        ring   h1 > h2 > h3 > h1                 h3 sends 4/3 of the gradients to h1
        tree   h2 > h1 < h3, and h2 < h1 > h3    h2 and h3 send 2 times the gradients to h1, and h1 sends them 2 times
        h4 --+
             +-- leaf1 -- h1                     the incast: 25 Mb/s of each writer
        h5 --+

Numbers
    a rank of a ring of three sends and receives 2 x 2/3 of the gradients, 1.6 MB: 0.131 s at 100 Mb/s with headers
    a tree sends 2.4 MB to h1, and then 2.4 MB from h1: 0.197 s and 0.197 s. A node of MPICH's tree has two children
    the incast leaves 50 Mb/s of the link to h1: 0.262 s for the ring, and 0.393 s for what the tree sends to h1. From
    h1 nothing is slower: 0.590 s for the tree
    alone, a rank of the ring sends the next part when it has added the last one. The emulated CPU needs 5 to 6 ms for
    that, in each of four rounds, and all links are idle meanwhile. The tree's sums need as much. Beside the incast
    h3 has its parts long before the link to h1 is free, so that this link is never idle
    with many ranks a ring carries the gradients nearly twice to each rank. An inner node of a tree gets them 3 times
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.scenario.api import Parameters, Recording, RecordingPhase, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import growth
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.training import PER_BYTE, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOSTS: Final = ("h1", "h2", "h3")
WRITERS: Final = ("h4", "h5")
INCAST: Final = incast(WRITERS, HOSTS[0])
SHARED: Final = "leaf1:swp3"  # the port to h1
RATE, LEFT = 100e6, 50e6
"""Bit/s of the link, and what the incast leaves."""
SIZE: Final = 1_200_000
COMPUTE: Final = 0.02  # seconds of the computation of a step
INTO: Final = {"ring": 4 / 3, "tree": 2.0}
"""How often the gradients cross the link to h1 in a step."""
BACK: Final = {"ring": 0.0, "tree": 2.0}
"""How often they cross the link from h1 afterwards."""
TOLERANCE: Final = 0.1
WORK: Final = 0.03
"""Seconds: at most so long the emulated CPU adds and copies in a step, while no link is used."""
WATCHED: Final = 1.0
"""Seconds of the observation, in which the ring works."""
SETTLING: Final = 0.5  # seconds until both writers send
PAYLOAD: Final = SIZE * PER_BYTE * 8  # bits of the gradients on a link, with all headers
ALONE, BESIDE, AFTER = "{}-alone", "observe", "verify"


def job_of(algorithm: str) -> str:
    """Return the job with an algorithm, whose name it has. One bucket: one sum in a step."""
    return (
        f"{{name: {algorithm}, hosts: [{', '.join(HOSTS)}], steps: 4, compute: {1000 * COMPUTE:.0f}ms, "
        f"allreduce: {SIZE}, algorithm: {algorithm}, data: {{buckets: 1}}}}"
    )


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its jobs."""


def run(stage: Stage, p: Params) -> None:
    """Both algorithms alone, beside the incast, and alone."""

    def work(observed: Callable[[], None] | None = None) -> None:
        train(stage, job_of("ring"), observed)
        train(stage, job_of("tree"))

    stage.set(",".join(f"{host}:eth1" for host in WRITERS), f"rate={LEFT / len(WRITERS) / 1e6:.0f}Mbit")
    for algorithm in INTO:
        with stage.phase(ALONE.format(algorithm)):
            train(stage, job_of(algorithm))
    with stage.writing(*INCAST):
        stage.hold(SETTLING)
        work(lambda: stage.measure(BESIDE, WATCHED))
        show_queue(stage, SHARED)
        stage.linger(work)
    with stage.phase(AFTER):
        work()


def _steps(rec: Recording, algorithm: str) -> list[float]:
    """Return the seconds of a step alone, beside the incast, and after it."""
    beside = RecordingPhase("incast", rec.phase(BESIDE).start, rec.phase(AFTER).start)
    return [job_in(rec, phase, algorithm).step_s for phase in (ALONE.format(algorithm), beside, AFTER)]


def _wanted(rate: float) -> dict[str, float]:
    """Return the seconds of a sum by each algorithm, if it has this bit/s of the link to h1."""
    return {each: PAYLOAD * (INTO[each] / rate + BACK[each] / RATE) for each in INTO}


def _judged(
    found: Mapping[str, float], wanted: Mapping[str, float], right: Callable[[float, float], bool]
) -> Verdict:
    evidence = "; ".join(
        f"{each} {1000 * found[each]:.1f} ms, {1000 * wanted[each]:.1f} by the arithmetic" for each in INTO
    )
    return expect(all(right(found[each], wanted[each]) for each in INTO), evidence)


def alone_a_sum_takes_what_its_bytes_take(rec: Recording, p: Params) -> Verdict:
    """Without the incast, a sum of either algorithm takes its bytes at the full rate, and the work of the CPU."""
    found = {each: _steps(rec, each)[0] - COMPUTE for each in INTO}
    return _judged(found, _wanted(RATE), lambda seconds, wanted: wanted < seconds < wanted + WORK)


def sums_take_what_their_bytes_take_beside_the_incast(rec: Recording, p: Params) -> Verdict:
    """Beside the incast, a sum takes its bytes to h1 at half of the rate, and those from h1 at the full rate."""
    found = {each: _steps(rec, each)[1] - COMPUTE for each in INTO}
    return _judged(found, _wanted(LEFT), lambda seconds, wanted: abs(seconds - wanted) < TOLERANCE * wanted)


def the_tree_loses_more_than_the_ring(rec: Recording, p: Params) -> Verdict:
    """The tree's sum is longer by more than the ring's, which is longer by more than half."""
    found = {each: _steps(rec, each)[:2] for each in INTO}
    ring, tree = (during - before for before, during in found.values())
    longer = (found["ring"][1] - COMPUTE) / (found["ring"][0] - COMPUTE)
    evidence = "; ".join(f"{name} {milliseconds(each, ('alone', BESIDE))}" for name, each in found.items())
    evidence += f": {1000 * ring:.1f} ms more, {longer:.2f} times the sum, and {1000 * tree:.1f} ms more"
    return expect(tree > ring > 0 and longer > 1.5, evidence)


def the_tree_fans_in_at_the_host(rec: Recording, p: Params) -> Verdict:
    """In a step the gradients cross the link to h1 twice with the tree, and 4/3 times with the ring."""
    found = {}
    for algorithm in INTO:
        phase = ALONE.format(algorithm)
        (octets,) = growth(rec, SHARED, "tx_prio3_bytes", [phase])
        found[algorithm] = octets / (len(job_in(rec, phase).steps) + 1) / SIZE  # and a step that is not measured
    evidence = ", ".join(f"{algorithm} {times:.2f} times" for algorithm, times in found.items())
    return expect(all(abs(found[each] / INTO[each] - 1) < 0.05 for each in INTO), f"gradients to h1: {evidence}")


def the_jobs_recover(rec: Recording, p: Params) -> Verdict:
    """After the incast, steps take as long as before it."""
    found = {algorithm: _steps(rec, algorithm)[::2] for algorithm in INTO}
    evidence = "; ".join(f"{name} {milliseconds(each, ('alone', AFTER))}" for name, each in found.items())
    return expect(all(abs(after - before) < 0.05 * before for before, after in found.values()), evidence)


ANSWER: Final = StoryAnswer(
    cause="capacity",
    where=(SHARED, "h1:eth1", "h1--leaf1", "h1"),
    level=2,
    workload="h1, h2 and h3 sum gradients by a ring and by a tree, and h4 and h5 write to h1",
    hints=(
        "steps take longer than they should, for all ranks and with either algorithm, and nothing has a fault",
        "leaf1: the queue towards one host is full, and the others are empty",
        "queue3_depth of leaf1's ports, and who sends to leaf1:swp3",
        "rocelab congestion, and rocelab job explain: which QPs pass leaf1:swp3",
        "h4 and h5 take half of the link to h1, which every round of the ring and the tree's fan-in need",
    ),
    sign="a full link carries a job and an incast, and no device differs from others (rocelab counters)",
    because="h4 and h5 take 50 of the 100 Mb/s to h1. The ring needs this link all the time, the tree for its sums.",
    fix="Repair nothing: have h4 and h5 write at another time, or place no rank at a host that receives an incast.",
    prevention="Compute how many bytes of each link an algorithm needs, before you blame or choose one.",
)

SCENARIO = Scenario(
    "ring-against-tree", "incast.yaml", Params, run,
    (sums_take_what_their_bytes_take_beside_the_incast, the_tree_loses_more_than_the_ring,
     alone_a_sum_takes_what_its_bytes_take, the_tree_fans_in_at_the_host, the_jobs_recover, nothing_is_lost(BESIDE),
     no_link_or_session_changes), answer=ANSWER,
)  # fmt: skip
