"""Rings on one uplink: the hash of a leaf places both rings of a job on the same uplink, and the other one is idle.

Story
    Given  h1, h2, h5 and h6 train: h1 and h2 divide a model, as h6 and h5 do. Two rings sum its gradients
    And    leaf1's hash places the rings, h1 with h6 and h2 with h5, on different uplinks
    When   the scheduler starts the job with h5 and h6 in the other order: the rings are h1 with h5, h2 with h6
    Then   leaf1's hash places both on one uplink, and the sum of a step takes twice as long
    And    the other uplink is idle, no packet is lost, and no link, session or route has a fault
    When   h5 and h6 are in the first order again, with the same hash
    Then   both uplinks carry a ring, and a step takes as long as before

        h1 --+      +== spine1 ==+      +-- h5
             leaf1 =+            += leaf2
        h2 --+      +-- spine2 --+      +-- h6
                       idle

Numbers
    links of 50 Mb/s. In a ring of two, each rank sends all of its gradients, 2.4 MB: 0.392 s at 50 Mb/s with all
    headers, and 0.783 s at 25
    two rings on two uplinks collide with probability 1/2; here leaf1's hash seed is one with which they do
    UCX gives all QPs the same UDP source port, so that only the addresses of two hosts decide. More QPs between the
    same hosts change nothing, and another order of the ranks does
    the other direction, from leaf2, has no collision. A ring waits for its slower direction
"""

from __future__ import annotations

from typing import Final

from lab.jobs.job_qps import UCX_FLOW_LABEL
from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, LOSSLESS, growth
from lab.scenario.probes.ecmp import draw, ways
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.training import allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue
from lab.wire.udp_ports import labelled_source_port

APART: Final = ("h1", "h2", "h6", "h5")
TOGETHER: Final = ("h1", "h2", "h5", "h6")
PORTS: Final = {"h1": "leaf1:swp3", "h2": "leaf1:swp4", "h5": "leaf2:swp3", "h6": "leaf2:swp4"}
"""The port of each host's leaf."""
UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
RATE: Final = 50e6
"""Of all links, so that four ranks send and receive no more than 200 Mb/s."""
SIZE: Final = 2_400_000
COMPUTE: Final = 0.1
"""Seconds of the computation of a step."""
TOLERANCE: Final = 0.1
"""Of a step: in each of them the emulated CPU works for a few hundredths of a second."""
OF_MORE: Final = 0.05
"""Of the additional time of a step, in which there is no additional work."""
OTHERS: Final = 0.01
"""Share of the job's bytes that do not belong to the rings: sums of 4 bytes, and acknowledgements."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def job_of(hosts: tuple[str, ...]) -> str:
    """Return the job with its ranks on these hosts: the first two, and the last two, divide the model."""
    return (
        f"{{name: rings, hosts: [{', '.join(hosts)}], steps: 3, compute: 100ms, allreduce: {SIZE}, algorithm: ring, "
        "tensor: {ranks: 2, allreduce: 4KiB}}"
    )


def run(stage: Stage, p: Params) -> None:
    """Apart, together, apart."""
    stage.set("spine,leaf,host", f"rate={RATE / 1e6:.0f}Mbit")
    draw(stage, "leaf1", lambda: _uplinks(stage, TOGETHER, 0) == 1 and _uplinks(stage, APART, 0) == len(UPLINKS))
    draw(stage, "leaf2", lambda: _uplinks(stage, TOGETHER, 2) == _uplinks(stage, APART, 2) == len(UPLINKS))

    def work(hosts: tuple[str, ...]) -> None:
        train(stage, job_of(hosts), paths=True, link_rate=RATE)

    with stage.phase("baseline"):
        work(APART)
    with stage.phase("observe"):
        work(TOGETHER)
    for port in UPLINKS:
        show_queue(stage, port)
    stage.linger(lambda: work(TOGETHER))
    with stage.phase("verify"):
        work(APART)


def _uplinks(stage: Stage, hosts: tuple[str, ...], first: int) -> int:
    """Return the number of uplinks by which a leaf sends both rings; its hosts begin with the rank ``first``."""
    port = labelled_source_port(UCX_FLOW_LABEL)
    pairs = [(hosts[rank], hosts[(rank + 2) % len(hosts)]) for rank in (first, first + 1)]
    return len({ways(stage, f"{src}:{dst}", PORTS[src], [port])[port] for src, dst in pairs})


def a_step_takes_what_its_links_allow(rec: Recording, p: Params) -> Verdict:
    """With a ring on each uplink, a step takes its computation and the time of a ring's bytes, within 10%."""
    step, wanted = job_in(rec, "baseline").step_s, COMPUTE + allreduce_seconds(SIZE, 2, RATE)
    evidence = f"{milliseconds([step], ACTS[:1])}, {1000 * wanted:.1f} by the arithmetic"
    return expect(abs(step - wanted) < TOLERANCE * wanted, evidence)


def a_step_is_longer_by_the_shared_uplink(rec: Recording, p: Params) -> Verdict:
    """The additional time of a step is that of a ring's bytes at half of the rate."""
    steps = [job_in(rec, phase).step_s for phase in ACTS]
    wanted = allreduce_seconds(SIZE, 2, RATE / 2) - allreduce_seconds(SIZE, 2, RATE)
    more = steps[1] - steps[0]
    evidence = f"{milliseconds(steps, ACTS)}: {1000 * more:.1f} ms longer, {1000 * wanted:.1f} by the arithmetic"
    return expect(abs(more - wanted) < OF_MORE * wanted, evidence)


def one_uplink_is_idle(rec: Recording, p: Params) -> Verdict:
    """With the collision one uplink carries both rings; before and after, each of them carries one."""
    carried = zip(*(growth(rec, port, f"tx_prio{LOSSLESS}_bytes") for port in UPLINKS), strict=True)
    least = [min(each) / max(sum(each), 1) for each in carried]
    evidence = ", ".join(f"{share:.1%} in {phase}" for share, phase in zip(least, ACTS, strict=True))
    right = least[1] < OTHERS and all(share > 0.5 - OTHERS for share in (least[0], least[2]))
    return expect(right, f"share of the less busy uplink: {evidence}")


def packets_wait_at_the_uplink(rec: Recording, p: Params) -> Verdict:
    """Packets of both rings wait at the shared uplink, and hardly any wait otherwise."""
    most = {phase: max(rec.port(port).depth(LOSSLESS).during(phase).max for port in UPLINKS) for phase in ACTS}
    evidence = ", ".join(f"{size:.0f} in {phase}" for phase, size in most.items())
    before, during, after = most.values()
    return expect(during > 10 * max(before, after), f"most bytes in a queue: {evidence}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """With the ranks in the first order, a step takes as long as before, and the hash is the same."""
    before, after = (job_in(rec, phase).step_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after - before) < 0.03 * before, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="elephant-collision",
    where=("leaf1", *UPLINKS),
    level=2,
    workload="h1, h2, h5 and h6 run training steps of 100 ms; two rings sum 2.4 MB: h1 with h5, and h2 with h6",
    hints=(
        "a step takes more than half again as long as it should, for all ranks alike, and nothing has a fault",
        "leaf1: one of its uplinks is full while the ranks communicate, and the other one is idle",
        "tx_prio3_bytes and queue3_depth of leaf1:swp1 and leaf1:swp2",
        "rocelab job explain, or rocelab path h1 h5 and h2 h6, with UDP source port 65472",
        "two next hops, and the QPs of both rings have the same one by chance",
    ),
    sign="the QPs of two rings share an uplink beside an idle one; routes and hash are right (rocelab job explain)",
    because="Two rings, two uplinks, and a hash of addresses that places both on the same one, with probability 1/2.",
    fix="Start the job with the ranks in another order (h1, h2, h6, h5), or give QPs different UDP source ports.",
    prevention="Before a job starts, compute the uplink of each ring from its addresses; monitor Jain's index.",
)

SCENARIO = Scenario(
    "ecmp-collision-of-rings", "incast.yaml", Params, run,
    (a_step_takes_what_its_links_allow, a_step_is_longer_by_the_shared_uplink, one_uplink_is_idle,
     packets_wait_at_the_uplink, nothing_is_lost("observe"), no_link_or_session_changes, the_job_recovers),
    answer=ANSWER,
)  # fmt: skip
