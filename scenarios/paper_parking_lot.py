"""A published result: DCQCN cures the parking lot of PFC (SIGCOMM 2015).

Story
    Given  hosts with DCQCN: h1 on h4's own leaf, and h5, h6 and h7 on another one, write to h4 with 4 QPs
    When   no NIC obeys CNPs, so that PFC is the only flow control
    Then   h1 gets a half of h4's link, and h5, h6 and h7 a sixth each: PFC divides by port, not by flow
    When   all NICs have DCQCN
    Then   h1 gets no more than the others, and pauses are rare

        h1 --------------------- leaf1 -- h4
        h5, h6, h7 -- leaf2 -- spine1 -/

Numbers
    Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 2.2 and figure 3: with PFC
    the sender on the receiver's switch gets up to twice as much as each of three others; section 6.1: with DCQCN all
    four get the same. There the others arrive by two ports of that switch, here by one: a half against a sixth each
    pass lines, by that arithmetic: with PFC alone 50% +-5 for h1, and 16.7% +-3 for each of the others
    chosen here: with DCQCN 25% +-10 each, a tenth of the PFC frames, and 85% of the link's rate; no loss, and
    no timeout of a QP
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, Verdict, expect, in_words, time_of
from lab.scenario.congestion import compare_with_pfc_alone, fewer_pauses, shares
from lab.scenario.phase_measures import jain, listed, mbits, rdma_growth
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.patterns import incast

NEAR: Final = "h1"
FAR: Final = ("h5", "h6", "h7")
RECEIVER: Final = "h4"
SENDERS: Final = (NEAR, *FAR)
QUEUE: Final = "leaf1:swp5"
PFC_SHARES: Final = {NEAR: (1 / 2, 0.05), **dict.fromkeys(FAR, (1 / 6, 0.03))}
"""Share and tolerance of each sender with PFC alone."""
FAIR: Final = (1 / len(SENDERS), 0.10)
"""Share and tolerance of each sender with DCQCN."""
LEAST: Final = 0.85
"""With DCQCN the link carries at least so much of what it carries with PFC alone."""


class Params(PhaseParameters):
    """Longer phases, because rates with DCQCN swing."""

    hold: Annotated[float, time_of(1, 60)] = 6.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """With DCQCN, with PFC alone, with DCQCN."""
    compare_with_pfc_alone(stage, *incast(SENDERS, RECEIVER), hold=p.hold, queue=QUEUE)


def pfc_alone_is_unfair(rec: Recording, p: Params) -> Verdict:
    """With PFC alone the sender on the receiver's leaf gets a half, and the others a sixth each."""
    found = shares(rec, "observe", *SENDERS)
    right = all(abs(found[host] - share) < tolerance for host, (share, tolerance) in PFC_SHARES.items())
    return expect(right, in_words({host: f"{share:.1%}" for host, share in found.items()}))


def dcqcn_is_fair(rec: Recording, p: Params) -> Verdict:
    """With DCQCN all senders get about the same, wherever they are."""
    found = shares(rec, "verify", *SENDERS)
    share, tolerance = FAIR
    evidence = in_words({host: f"{each:.1%}" for host, each in found.items()})
    index = jain(list(found.values()))
    right = all(abs(each - share) < tolerance for each in found.values())
    return expect(right, f"{evidence}; Jain's index {index:.3f}")


def the_link_stays_full(rec: Recording, p: Params) -> Verdict:
    """Fairness does not cost the link's throughput."""
    alone, cured = (mbits(rec, QUEUE, phase) for phase in ("observe", "verify"))
    return expect(cured > LEAST * alone > 0, f"{alone:.1f} Mb/s with PFC alone, {cured:.1f} with DCQCN")


def no_qp_times_out(rec: Recording, p: Params) -> Verdict:
    """The network loses nothing and no QP of a NIC waits for another, so that no ACK comes too late."""
    timeouts = {host: rdma_growth(rec, host, "completer_retry_err", ("observe", "verify")) for host in SENDERS}
    evidence = in_words({host: listed(each, ("observe", "verify")) for host, each in timeouts.items()})
    return expect(not any(sum(each) for each in timeouts.values()), f"completer_retry_err: {evidence}")


SCENARIO = Scenario(
    "paper-parking-lot", "dcqcn.yaml", Params, run,
    (pfc_alone_is_unfair, dcqcn_is_fair, the_link_stays_full, fewer_pauses(10), nothing_is_lost("observe", "verify"),
     no_qp_times_out),
)  # fmt: skip
