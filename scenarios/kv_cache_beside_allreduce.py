"""A KV cache beside an AllReduce: inference hosts move prompts over a link that a training ring needs as well.

Story
    Given  h1 and h4 train: in each step they compute for 200 ms, and then sum their gradients in a ring of two
    And    h2 computes the KV cache of prompts (prefill), and h5 reads it to generate the answers (decode)
    When   both happen at the same time: each has half of the link from leaf1 to the spine while the ring sends
    Then   a step takes half as long again, and so does the KV cache of a prompt, by the same arithmetic
    And    packets wait at leaf1's uplink, none is lost, and no link, session or NIC has a fault
    When   h3, a host on h2's leaf, decodes in place of h5
    Then   the KV cache does not use the uplink, and both take as long as alone

        training     h1 --+                    +-- h4        h1 > h4 > h1
                          leaf1 = spine1 = leaf2
        inference    h2 --+                    +-- h5        h2 > h5
        afterwards   h3 --+                                  h2 > h3

Numbers
    in a ring of two each rank sends all gradients, 2.4 MB. With all headers that takes T = 0.196 s at 100 Mb/s
    Llama 3 70B has 80 layers, and 8 heads of 128 values for K and for V, of 2 bytes. A token has 327,680 bytes of
    KV cache. A prompt of 4,000 tokens has 1.31 GB, which takes 26.7 ms at 400 Gb/s. Size and rate are divided by
    4,000 here: 327,680 bytes at 100 Mb/s
    this time is the part of the time to first token (TTFT) that the fabric causes. Computation is another part
    a step: C + T alone, C + 2 T beside the KV cache. With C = 0.2 s: 0.396 and 0.592 s, 1.49 times as long
    in a step the KV cache has the link for C, and half of it for 2 T: as much as in C + T alone. So a prompt takes
    (C + 2 T) / (C + T) = 1.49 times as long on average, 40.0 ms
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, LOSSLESS
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.finite_transfers import fetch, message_seconds
from lab.scenario.traffic.training import PER_BYTE, allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

HOSTS: Final = ("h1", "h4")
FAR: Final = "h5:h2"
"""The decode host, which reads, and the prefill host."""
NEAR: Final = "h3:h2"
UPLINK: Final = "leaf1:swp1"
RATE: Final = 100e6
SIZE: Final = 2_400_000
CACHE: Final = 327_680
"""Bytes of the KV cache of a prompt, divided by 4,000."""
COMPUTE: Final = 0.2
"""Seconds of the computation of a step."""
PROMPTS: Final = 100
"""So many that they last as long as the job."""
ALONE: Final = 30
"""Prompts without the job."""
TOLERANCE: Final = 0.1
"""The emulated CPU works for a few hundredths of a second in each step."""
WAITING: Final = 100_000
"""Bytes. Alone, a ring or a KV cache has a few packets in the uplink's queue."""
JOB: Final = (
    f"{{name: ring, hosts: [{', '.join(HOSTS)}], warmup: 3, steps: 3, compute: 200ms, "
    f"allreduce: {SIZE}, algorithm: ring}}"
)
"""KV caches are read from the first steps on, which are not measured."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Each alone, both on one link, both without a common link."""

    def read(pair: str) -> None:
        fetch(stage, pair, messages=PROMPTS, size=CACHE)

    def both(phase: str, pair: str) -> None:
        def measured() -> None:
            with stage.phase(phase):  # without the start of the job, in which the link is idle
                read(pair)

        train(stage, JOB, measured)

    with stage.phase("baseline"):
        train(stage, JOB)
        fetch(stage, FAR, messages=ALONE, size=CACHE)
    both("observe", FAR)
    show_queue(stage, UPLINK)
    stage.linger(lambda: train(stage, JOB, lambda: read(FAR)))
    both("verify", NEAR)


def _step(share: float) -> float:
    """The seconds of a step whose ring has this share of a link."""
    return COMPUTE + allreduce_seconds(SIZE, len(HOSTS), RATE * share)


def _ttft(rec: Recording, phase: str) -> float:
    """The mean seconds of a KV cache beside the job; 0 if all of them together last less than half of its steps."""
    job = job_in(rec, phase)
    times = message_seconds(rec, phase, job.span)
    return fmean(times) if sum(times) > sum(job.times_s) / 2 else 0.0


def _alone(rec: Recording) -> float:
    """The mean seconds of a KV cache without the job."""
    return fmean(message_seconds(rec, "baseline") or [0.0])


def _is_near(measured: float, wanted: float) -> bool:
    return abs(measured - wanted) < TOLERANCE * wanted


def alone_each_takes_what_the_links_allow(rec: Recording, p: Params) -> Verdict:
    """Without the other, a step and a KV cache take as long as by the arithmetic, within 10%."""
    step, cache = job_in(rec, "baseline").step_s, _alone(rec)
    steps, caches = _step(1.0), CACHE * PER_BYTE * 8 / RATE
    evidence = (
        f"step {1000 * step:.1f} ms, {1000 * steps:.1f} by the arithmetic; "
        f"KV cache {1000 * cache:.1f} ms, {1000 * caches:.1f} by the arithmetic"
    )
    return expect(_is_near(step, steps) and _is_near(cache, caches), evidence)


def a_step_is_longer_by_half_of_the_link(rec: Recording, p: Params) -> Verdict:
    """Beside the KV cache, the ring has half of the link."""
    during, wanted = job_in(rec, "observe").step_s, _step(0.5)
    return expect(_is_near(during, wanted), f"step {1000 * during:.1f} ms, {1000 * wanted:.1f} at half of the rate")


def a_kv_cache_takes_longer_by_the_same_share(rec: Recording, p: Params) -> Verdict:
    """Beside the ring, the KV cache of a prompt takes longer by the factor that the arithmetic has for a step."""
    beside, wanted = _ttft(rec, "observe"), CACHE * PER_BYTE * 8 / RATE * _step(0.5) / _step(1.0)
    evidence = f"KV cache {1000 * beside:.1f} ms beside the ring, {1000 * wanted:.1f} by the arithmetic"
    return expect(_is_near(beside, wanted), evidence)


def packets_wait_at_the_uplink(rec: Recording, p: Params) -> Verdict:
    """Packets of both wait at leaf1's uplink, and hardly any wait if one of them uses it."""
    most = {phase: rec.port(UPLINK).depth(LOSSLESS).during(phase).max for phase in ACTS}
    evidence = ", ".join(f"{size:.0f} in {phase}" for phase, size in most.items())
    during = most.pop("observe")
    return expect(during > WAITING > max(most.values()), f"most bytes in the queue: {evidence}")


def both_recover(rec: Recording, p: Params) -> Verdict:
    """With the decode host on the same leaf, a step and a KV cache take as long as alone."""
    steps = [job_in(rec, phase).step_s for phase in ("baseline", "verify")]
    caches = _alone(rec), _ttft(rec, "verify")
    evidence = (
        f"{milliseconds(steps, ('baseline', 'verify'))}; KV cache {milliseconds(caches, ('baseline', 'verify'))}"
    )
    return expect(all(abs(after - before) < 0.05 * before for before, after in (steps, caches)), evidence)


ANSWER: Final = StoryAnswer(
    cause="capacity",
    where=(UPLINK, "leaf1", "leaf1--spine1", "spine1:swp1"),
    level=2,
    workload="h1 and h4 run training steps of 200 ms and a ring of 2.4 MB; h5 reads KV caches of 328 KB from h2",
    hints=(
        "a step of the job and a KV cache take half as long again as they should, and nothing has a fault",
        "leaf1: its uplink carries packets of two hosts, and each of them could fill it",
        "queue3_depth and tx_prio3_bytes of leaf1:swp1, and rx_prio3_bytes of leaf1's ports to h1 and h2",
        "rocelab congestion, and rocelab path h1 h4 beside rocelab path h2 h5",
        "h1 sends to h4 and h2 to h5 by the same link of 100 Mb/s; no packet is lost",
    ),
    sign="the ports of two hosts bring in more than a link carries, and its queue is deep (rocelab congestion)",
    because="Training and inference share leaf1's uplink. Each of them could fill it alone.",
    fix="Let a host on the leaf of the prefill host decode (h3), or give the two workloads different links.",
    prevention="Schedule prefill and decode of a prompt on one leaf, and count KV caches as load of uplinks.",
)

SCENARIO = Scenario(
    "kv-cache-beside-allreduce", "one-spine.yaml", Params, run,
    (alone_each_takes_what_the_links_allow, a_step_is_longer_by_half_of_the_link,
     a_kv_cache_takes_longer_by_the_same_share, packets_wait_at_the_uplink, nothing_is_lost("observe"),
     no_link_or_session_changes, both_recover), answer=ANSWER,
)  # fmt: skip
