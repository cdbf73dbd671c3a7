"""The parts of a fabric that a diagnosis did not check: an answer is "healthy" only if there are none.

Every pair of NICs that should talk has to be seen talking, or swept, or pinged; the routing sessions and the settings
have to be known, and no setting may differ. In a recording of a scenario the pairs that should talk are those of its
transfers, and settings are not asked for: scenarios do not record them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.symptoms.probes import pinging
from lab.model.hosts import parse_pair
from lab.scenario.probes.nic_rings import nic_pairs
from lab.telemetry.read.audits import audit_at, read_audits
from lab.telemetry.store.session_states import TITLES, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.diagnose.diagnosis import Diagnosis
    from lab.diagnose.facts import Ran, WindowFacts
    from lab.telemetry.read.recording import Recording

Directed = tuple[str, str]
"""Two NICs, from which to which: ``h1``, or ``h1:eth2`` if hosts have several."""

_NS: Final = 10**9
_NAMED: Final = 3
"""Names that a line lists."""
TRAFFIC: Final = "traffic between hosts"
"""The beginning of the line on transfers among facts that are missing: probes are no transfers, and do as well."""


def with_coverage(found: Diagnosis, recording: Recording, windows: Sequence[WindowFacts]) -> Diagnosis:
    """Return the diagnosis with what was not checked. A healthy one becomes unchecked if there is anything."""
    lines = tuple(_unchecked(found, recording, windows))
    healthy = found.outcome is DiagnosisOutcome.HEALTHY
    return replace(found, outcome=DiagnosisOutcome.UNCHECKED if healthy and lines else found.outcome, unchecked=lines)


def _unchecked(found: Diagnosis, recording: Recording, windows: Sequence[WindowFacts]) -> Iterator[str]:
    of_scenario = "scenario" in recording.parameters
    pairs = _announced(recording) if of_scenario else set()
    if not pairs:
        pairs = {each for one, other in nic_pairs(recording.topology) for each in ((one, other), (other, one))}
    if silent := sorted(pairs - talking(windows, pairs)):
        yield f"{len(silent)} of {len(pairs)} directed host pairs, {_names('->'.join(each) for each in silent)}"
    if unheard := _without_sessions(recording, found.end):
        yield f"the routing sessions of {_names(unheard)}"
    audit = audit_at(read_audits(recording.folder), recording.clock.start + round(found.end * _NS))
    nodes = audit.state.nodes if audit else {}
    unread = [f"{each.part} of {node.name}" for node in nodes.values() for each in node.unread]
    absent = [node.name for node in recording.topology.nodes if node.name not in nodes]
    if absent and (audit or not of_scenario):
        yield f"the settings of {_names(absent) if audit else 'all nodes'}"
    if unread:
        yield f"settings that could not be read: {_names(unread)}"
    differing = dict.fromkeys(f"{each.object} of {each.node}" for each in found.differing)
    if others := [each for each in differing if each not in unread]:
        yield f"the effect of settings that differ: {_names(others)}"
    if found.located:
        places = dict.fromkeys(each.place for each in found.located)
        yield f"why packets are not conserved at {_names(places)}"
    yield from (line for line in found.missing if not line.startswith(TRAFFIC))


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _announced(recording: Recording) -> set[Directed]:
    """Return the pairs of all transfers of a recording, in both directions: an RDMA transfer is acknowledged."""
    found = {(each.src, each.dst) for each in recording.transfers()}
    for event in recording.events(source="caller", kind="note"):
        if event.data.get("text") == "traffic":
            found |= {parse_pair(str(pair)) for pair in event.data.get("pairs", ())}
    return found | {(dst, src) for src, dst in found}


def talking(windows: Sequence[WindowFacts], pairs: set[Directed]) -> set[Directed]:
    """Return the pairs that exchanged something in one of the windows."""
    names: dict[str, list[str]] = {}
    for nic in dict.fromkeys(nic for pair in pairs for nic in pair):
        names.setdefault(nic.partition(":")[0], []).append(nic)

    def known(end: str) -> list[str]:
        mine = names.get(end.partition(":")[0], [])
        return [each for each in mine if each == end or ":" not in each or (":" not in end and len(mine) == 1)]

    return {
        (one, other)
        for facts in windows
        for src, dst in _exchanges(facts)
        for one in known(src)
        for other in known(dst)
    } & pairs


def _exchanges(facts: WindowFacts) -> Iterator[Directed]:
    for transfer in (each for each in facts.transfers if _has_received(facts, each.dst)):
        yield transfer.src, transfer.dst
        yield transfer.dst, transfer.src
    for swept in facts.swept:
        if swept.came and (there := facts.peer(swept.path[-1])):
            yield facts.nic_of(swept.path[0]), facts.nic_of(there)
    for pair in facts.swept_pairs:
        if pair.sent and pair.came == pair.sent:
            yield pair.src, pair.dst
    owners = {address: node for node, stack in facts.stacks.items() for address in stack.own}
    owners |= {address: nic for nic, address in facts.addresses.items()}
    for ran in facts.ran:
        if _is_answered(ran) and (target := owners.get(ran.argv[-1])):
            for nic in pinging(facts, ran):
                yield nic, target
                yield target, nic


def _is_answered(ran: Ran) -> bool:
    return ran.argv[:1] == ("ping",) and ran.exit_code == 0


def _has_received(facts: WindowFacts, nic: str) -> bool:
    return any(lane.rx_packets for port in facts.links_of(nic) for lane in facts.by_port.get(port.name, ()))


def _without_sessions(recording: Recording, until: float) -> list[str]:
    """Return the switches with a neighbour that routes whose daemons reported no session until a time.

    The only switch of a fabric has none to report.
    """
    topology = recording.topology
    if not kinds_of(topology):
        return []
    heard = {
        event.node for event in recording.events(source="routing") if event.kind in TITLES and event.seconds <= until
    }
    routers = {switch.name for switch in topology.switches}
    routers |= {border.router.node for border in topology.overlay.border} if topology.overlay else set()
    return [
        switch.name
        for switch in topology.switches
        if switch.name not in heard
        and any(link.other(link.end_at(switch.name)).node in routers for link in topology.links_of(switch.name))
    ]
