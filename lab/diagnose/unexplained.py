"""Evidence of trouble, whatever its cause: if no cause explains it, the outcome is "unknown"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.diagnose.symptom import Evidence
from lab.diagnose.symptoms.address_symptoms import a_ping_is_not_answered, nobody_answers
from lab.diagnose.symptoms.host_symptoms import (
    a_host_takes_nothing_in,
    no_probe_leaves,
    receivers_are_not_ready,
    somebody_gave_up,
)
from lab.diagnose.symptoms.loss_symptoms import (
    only_small_ones_pass,
    sent_again,
    swallowed_by_a_switch,
    vanishes_on_a_link,
)
from lab.diagnose.symptoms.overlay_symptoms import is_not_flooded_to
from lab.diagnose.symptoms.path_delays import slow_paths
from lab.diagnose.symptoms.path_symptoms import a_link_goes_down, a_session_is_lost
from lab.diagnose.symptoms.pause_symptoms import FOREVER, a_lossless_class_drops
from lab.diagnose.symptoms.probes import large_pings_are_lost, probes_are_missing
from lab.diagnose.symptoms.vanishing import not_conserved
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_ANY = (
    not_conserved, a_lossless_class_drops, only_small_ones_pass, vanishes_on_a_link, swallowed_by_a_switch,
    sent_again,
    a_link_goes_down, a_session_is_lost, probes_are_missing, a_ping_is_not_answered, large_pings_are_lost,
    is_not_flooded_to, nobody_answers, a_host_takes_nothing_in, no_probe_leaves, receivers_are_not_ready,
    somebody_gave_up, slow_paths,
)  # fmt: skip


def trouble(facts: WindowFacts) -> Iterator[Evidence]:
    """Yield evidence of losses, retransmissions, lost links and sessions, failed and slow probes, stuck ports."""
    for symptom in _ANY:
        for sign in symptom(facts):
            yield from sign.evidence[:2]
    for lane in facts.lanes.values():
        if lane.paused > FOREVER and lane.deepest and not lane.tx_packets and not facts.is_host(lane.port):
            counter = measures.PAUSED.series(lane.priority)
            yield Evidence(
                says="paused with packets in its queue",
                of=lane.port,
                source=counter,
                value=lane.paused,
                at=facts.end,
            )
