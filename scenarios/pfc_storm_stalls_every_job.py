"""A pause storm stalls every job: one stuck NIC stops its own job, and the job beside it that has no rank there.

Story
    Given  two training jobs on one fabric: the first on h1 and h4, the second on h2 and h5
    When   h4's receiver is stuck, and its NIC sends PFC frames without an XON, for longer than a second
    Then   leaf2 cannot send to h4, fills up with the first job's gradients, and pauses spine1
    And    spine1 sends nothing to leaf2, so that the second job stops as well
    And    one step of each job is longer by the time for which spine1 was paused, and nothing is lost: no alarm
    When   the NIC is replaced
    Then   both jobs go on, every sum is right, and a step takes as long as before

        h1 --+                         +-- h4   <- storm
             leaf1 ---- spine1 ---- leaf2
        h2 --+                         +-- h5      no packet of the second job goes to h4

Numbers
    a rank of two sends all of its gradients, 800 kB: 0.146 s at 45 Mb/s with all headers. The uplinks of 100 Mb/s
    carry both jobs, so that without the storm neither waits for the other
    rxe has 64 packets of a QP under way, 267 KB. leaf2 takes 218 KB from spine1's port, and pauses it above that
    a pause of 65535 quanta lasts 0.336 s at 100 Mb/s, and one comes every 84 ms: it ends 0.336 s after the last one
    a computation of the second job goes on while spine1 is paused: its step loses up to 0.1 s less than the pause
"""

from __future__ import annotations

from statistics import median
from typing import Final

from lab.scenario.api import Parameters, Recording, RecordingPhase, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, LOSSLESS, growth, listed
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.training import await_computation, end_of_jobs, job_in, milliseconds, train_together
from lab.scenario.traffic.workload import is_paused
from lab.telemetry.read import measures

STUCK: Final = "leaf2:swp2"
SHARED: Final = "spine1:swp2"
"""The port to leaf2, which both jobs use."""
HOSTS: Final = {"first": ("h1", "h4"), "second": ("h2", "h5")}
LIMIT: Final = 45
"""Mb/s of a host: an uplink of 100 carries two. Without the storm no port is paused."""
SIZE: Final = 800_000
"""Bytes of the gradients. Halves below 459 KiB are sent at once, without a request that waits for an answer."""
COMPUTE: Final = {"first": 1.3, "second": 0.1}
"""Seconds of a computation. The storm begins in one of the first job, whose next sum then fills leaf2."""
SETTLING: Final = 0.2
"""Seconds from the first pause of spine1 until no host receives anything.

The second job may still compute for 0.1 s. Then h5 sends 64 packets to h2, as no pause stops them.
"""
STORM: Final = 0.4
"""Seconds in which both jobs stand still, until the repair."""
OVERLAP: Final = {"first": 0.02, "second": COMPUTE["second"] + 0.02}
"""Seconds of the pause that a job does not lose: what it still computes, and what leaf2 takes at first."""
LATER: Final = 0.15
"""Seconds after the pause: all that waits has to be sent, and packets whose QP timed out are sent again."""
JOBS: Final = tuple(
    f"{{name: {name}, hosts: [{', '.join(hosts)}], steps: {steps}, compute: {1000 * COMPUTE[name]:.0f}ms, "
    f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}}}"
    for (name, hosts), steps in zip(HOSTS.items(), (3, 16), strict=True)
)


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its jobs."""


def run(stage: Stage, p: Params) -> None:
    """Both jobs, both and the storm, both."""

    def storm() -> None:
        with stage.phase("inject"):
            await_computation(stage, HOSTS["first"][0])
            entry = stage.inject("pause-storm", HOSTS["first"][1])
            stage.until(lambda: is_paused(stage, SHARED), "the pauses to reach spine1")
            stage.hold(SETTLING)
        stage.measure("observe", STORM)
        with stage.phase("fix"):
            stage.heal(entry)

    stage.set(",".join(f"{host}:eth1" for pair in HOSTS.values() for host in pair), f"rate={LIMIT}Mbit")
    with stage.phase("baseline"):
        train_together(stage, *JOBS)
    train_together(stage, *JOBS, during=storm)
    stage.linger(lambda: train_together(stage, *JOBS, during=storm))
    with stage.phase("verify"):
        train_together(stage, *JOBS)


def _beside(rec: Recording) -> RecordingPhase:
    """Return the time of the jobs with the storm: from the end of those before it to their own last step.

    A challenge repeats jobs and storm after that, until it is answered. Their steps are not recorded.
    """
    between = RecordingPhase("storm", rec.phase(ACTS[0]).end, rec.phase(ACTS[-1]).start)
    return RecordingPhase("storm", between.start, max(rec.phase("fix").end, end_of_jobs(rec, between)))


def _more(rec: Recording, name: str) -> tuple[float, float, float]:
    """Return the usual seconds of a job's step, by how much its longest was longer with the storm, and its second."""
    usual = median(job_in(rec, ACTS[0], name).spans_s)
    *others, longest = sorted(job_in(rec, _beside(rec), name).spans_s)
    return usual, longest - usual, max(others)


def a_step_of_each_job_is_longer_by_the_pause(rec: Recording, p: Params) -> Verdict:
    """One step of each job loses the time for which the port to leaf2 was paused, and no other step is longer."""
    pause = _paused(rec, SHARED)
    found = {name: _more(rec, name) for name in HOSTS}
    evidence = f"{SHARED} paused for {1000 * pause:.0f} ms; " + "; ".join(
        f"{name} {1000 * more:.0f} ms longer than {1000 * usual:.0f}, others at most {1000 * rest:.0f}"
        for name, (usual, more, rest) in found.items()
    )
    right = all(
        pause - OVERLAP[name] < more < pause + LATER and rest < 1.15 * usual
        for name, (usual, more, rest) in found.items()
    )
    return expect(right, evidence)


def both_jobs_stand_still(rec: Recording, p: Params) -> Verdict:
    """While the pause has reached spine1, no host of either job receives a packet of it, and before they do."""
    ports = {name: [f"leaf1:swp{port}", f"leaf2:swp{port}"] for name, port in zip(HOSTS, (2, 3), strict=True)}
    found = {name: growth(rec, each, "tx_prio3_bytes", ACTS) for name, each in ports.items()}
    evidence = "; ".join(f"{name} {listed(each)}" for name, each in found.items())
    right = all(before > 0 == during < after for before, during, after in found.values())
    return expect(right, f"bytes to the hosts of the jobs: {evidence}")


def the_pause_passes_leaf2(rec: Recording, p: Params) -> Verdict:
    """leaf2's port to h4 is paused first and then spine1's port to leaf2, and neither is in any other phase."""
    began = {port: rec.port(port).counter("rx_prio3_pause").during(_beside(rec)).since() for port in (STUCK, SHARED)}
    times = {port: _paused(rec, port) for port in began}
    quiet = sum(growth(rec, [STUCK, SHARED], "rx_prio3_pause", (ACTS[0], ACTS[-1])))
    evidence = ", ".join(
        f"{port} paused for {1000 * times[port]:.0f} ms from {began[port] or 0:.2f} s on" for port in began
    )
    first, second = began[STUCK], began[SHARED]
    in_order = first is not None and second is not None and first < second
    return expect(in_order and min(times.values()) > STORM and quiet == 0, f"{evidence}; otherwise {quiet} pauses")


def _paused(rec: Recording, port: str) -> float:
    """Return the seconds for which a port was paused beside the storm."""
    return float(rec.port(port).value(measures.PAUSED_SECONDS, _beside(rec), LOSSLESS))


def both_jobs_recover(rec: Recording, p: Params) -> Verdict:
    """After the repair, a step of each job takes as long as before."""
    found = {name: [median(job_in(rec, act, name).spans_s) for act in (ACTS[0], ACTS[-1])] for name in HOSTS}
    evidence = "; ".join(f"{name} {milliseconds(each, (ACTS[0], ACTS[-1]))}" for name, each in found.items())
    return expect(all(abs(after - before) < 0.05 * before for before, after in found.values()), evidence)


ANSWER: Final = StoryAnswer(
    cause="pfc-storm",
    where=("h4", "h4:eth1", STUCK),
    level=2,
    workload="h1 and h4 run a training job, and h2 and h5 another one",
    hints=(
        "now and then a step of either job takes a second longer, and nothing is lost",
        "leaf2:swp2: it is paused first, and spine1:swp2, which both jobs use, after it",
        "rx_prio3_pause_duration of leaf2:swp2 and spine1:swp2",
        "rocelab congestion, and rocelab capture leaf2:swp2 --seconds 5 -o pfc.pcapng",
        "h4 sends a PFC frame every 84 ms for about a second, and never an XON",
    ),
    sign="a NIC sends valid PFC frames without an XON, and jobs stop that have no rank there (rocelab qos show)",
    because="h4's NIC is stuck and pauses leaf2. leaf2 fills up and pauses spine1, whose port both jobs use.",
    fix="Disconnect h4's NIC and replace it.",
    prevention="Use a PFC watchdog on every host port: leaf2 then drops what is for h4, and the second job goes on.",
)

SCENARIO = Scenario(
    "pfc-storm-stalls-every-job", "one-spine.yaml", Params, run,
    (a_step_of_each_job_is_longer_by_the_pause, both_jobs_stand_still, the_pause_passes_leaf2,
     nothing_is_lost("observe"), no_link_or_session_changes, both_jobs_recover), answer=ANSWER,
)  # fmt: skip
