"""Pass lines of SONiC's RoCEv2 test plan, for scenarios ``sonic-*``: counters of the switch and of the tester agree.

The plan is "SONiC RoCEv2 Test Plan" by Keysight and Microsoft. Each check is one of its expected results. The
differences:

- rxe answers in the class of the data, so ACKs have no queue of their own. Their counters are not compared.
- CNPs have priority 6 and not 5.
- "Few or no PFC" has no number in the plan. Here it is less than a hundredth of the time.
- Transfers last as long as the phases, not for 4 GB or 3 minutes. Latency is noted in the plan, and not judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.scenario.api import in_words
from lab.scenario.phase_measures import dropped, growth, listed, paused_share, rdma_growth
from lab.scenario.traffic.mixed_incast import LOSSY, RECEIVER, SENDERS
from lab.scenario.verdict import expect

if TYPE_CHECKING:
    from lab.scenario.api import Check
    from lab.scenario.verdict import Verdict
    from lab.telemetry.read.recording import Recording

HOSTS: Final = (*SENDERS, LOSSY, RECEIVER)
LOSSLESS: Final = (3, 4)
PORTS: Final = {"h1": "leaf1:swp1", "h2": "leaf1:swp2"}
"""The switch port of each rank that sends in a lossless class."""
QUEUE: Final = "leaf1:swp4"
FEW: Final = 0.01
"""The share of a phase below which pauses are few."""
_UNDER_WAY: Final = 2
"""CNPs, or PFC frames of a port, that may be under way when a phase begins or ends."""
_SMALLEST: Final = 4154
"""Bytes of a data packet with 4,096 bytes of payload, without its RETH."""
_ERRORS: Final = ("out_of_seq_request", "rcvd_seq_err", "completer_retry_err")
"""Counters of sequence errors, NAKs and timeouts."""


def no_packet_is_lost(*phases: str) -> Check:
    """Return the check "no loss": no port drops a packet of any class."""

    def no_packet_is_lost(rec: Recording, _: Any) -> Verdict:
        """No port drops a packet of any class."""
        lost = dropped(rec, *phases, priority=None)
        return expect(lost == 0, f"{lost} packets dropped")

    return no_packet_is_lost


def no_nak_and_no_sequence_error(*phases: str) -> Check:
    """Return the check "no NAK and sequence error": no RDMA device counts one, or a timeout."""

    def no_nak_and_no_sequence_error(rec: Recording, _: Any) -> Verdict:
        """No RDMA device counts a sequence error, a NAK or a timeout."""
        found = {error: sum(sum(rdma_growth(rec, host, error, phases)) for host in HOSTS) for error in _ERRORS}
        return expect(not any(found.values()), in_words(found))

    return no_nak_and_no_sequence_error


def marks_match(classes: dict[str, tuple[int, ...]]) -> Check:
    """Return the check "ECN-CE observed, matching the tester", for the queues of these priorities in each phase.

    Packets that wait when a phase begins or ends are marked in one phase and received in another.
    """

    def marks_match(rec: Recording, _: Any) -> Verdict:
        """The switch marks packets in each lossless queue, and the receiver's NIC counts as many."""
        evidence, right = [], True
        for phase, priorities in classes.items():
            marked = [rec.port(QUEUE).marked(each).during(phase).delta() for each in priorities]
            came = rec.delta("np_ecn_marked_roce_packets", f"{RECEIVER}:eth1", phase)
            depths = [rec.port(QUEUE).depth(each).during(phase) for each in priorities]
            most = sum(depth.last for depth in depths) // _SMALLEST + _UNDER_WAY
            least = -(sum(depth.first for depth in depths) // _SMALLEST) - _UNDER_WAY
            right &= min(marked) > 0 and came > 0 and least <= sum(marked) - came <= most
            evidence.append(f"{phase}: {' and '.join(map(str, marked))} marked, {came} received")
        return expect(right, "; ".join(evidence))

    return marks_match


def cnps_match(*phases: str) -> Check:
    """Return the check "CNP observed, matching the tester": NICs receive as many as are sent."""

    def cnps_match(rec: Recording, _: Any) -> Verdict:
        """The receiver's NIC sends CNPs, and the senders' NICs receive all of them."""
        sent, *parts = (
            growth(rec, [f"{host}:eth1" for host in HOSTS], counter, phases)
            for counter in ("np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored")
        )
        came = [sum(each) for each in zip(*parts, strict=True)]
        right = all(one > 0 and abs(one - other) <= _UNDER_WAY for one, other in zip(sent, came, strict=True))
        return expect(right, f"sent {listed(sent, phases)}; received {listed(came, phases)}")

    return cnps_match


def pfc_counters_match(*phases: str) -> Check:
    """Return the check "PFC matching the tester": each rank receives the frames that its port sends."""

    def pfc_counters_match(rec: Recording, _: Any) -> Verdict:
        """Each host counts as many PFC frames as the switch's port to it."""
        sent, came = (
            [
                rec.delta(f"{way}_prio{priority}_pause", port, phase)
                for host, leaf in PORTS.items() for priority in LOSSLESS for phase in phases
                for port in ([leaf] if way == "tx" else [f"{host}:eth1"])
            ]
            for way in ("tx", "rx")
        )  # fmt: skip
        right = all(abs(one - other) <= _UNDER_WAY for one, other in zip(sent, came, strict=True))
        return expect(right, f"{sum(sent)} frames sent by the switch, {sum(came)} received")

    return pfc_counters_match


def pfc_is_seen(classes: dict[str, tuple[int, ...]]) -> Check:
    """Return the check "PFC observed", for each of these priorities in each phase."""

    def pfc_is_seen(rec: Recording, _: Any) -> Verdict:
        """Without DCQCN, the switch pauses each lossless class."""
        found = {
            f"priority {priority} in {phase}": sum(
                rec.port(port).tx_pause(priority).during(phase).delta() for port in PORTS.values()
            )
            for phase, priorities in classes.items() for priority in priorities
        }  # fmt: skip
        return expect(all(found.values()), in_words(found))

    return pfc_is_seen


def few_or_no_pfc(*phases: str) -> Check:
    """Return the check "few or no PFC observed"."""

    def few_or_no_pfc(rec: Recording, _: Any) -> Verdict:
        """With DCQCN, no lossless class is paused for more than a hundredth of a phase."""
        nics = [f"{host}:eth1" for host in SENDERS]
        worst = max(paused_share(rec, phase, *nics, priority=priority) for phase in phases for priority in LOSSLESS)
        return expect(worst < FEW, f"paused for at most {worst:.2%} of a phase")

    return few_or_no_pfc
