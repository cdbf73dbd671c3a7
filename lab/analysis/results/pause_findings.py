"""Findings about flow control: long pauses, storms, and frames that deviate from the standards."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lab.analysis.results.analysis_facts import AnalysisFacts, OddControl, PausedPort

PAUSED_SHARE: Final = 0.1
"""Share of the capture's duration. Pauses beyond it are more than smoothing."""
STORM_SECONDS: Final = 0.2
"""Seconds. An uninterrupted pause of this length is a storm: the usual default of PFC watchdogs."""
_STORM_FRAMES: Final = 3
"""This many XOFFs without an XON are a storm, if they stopped traffic."""
_EXAMPLES: Final = 10
_Group = tuple[int | None, bool]
_ODD: Final = {
    "opcode": (
        "MAC control with the reserved opcode {number:#06x}",
        "no receiver obeys it (IEEE 802.3 table 31A-1): PFC is 0x0101, Pause 0x0001",
        False,
    ),
    "no class": (
        "PFC whose class vector is 0: it stops and resumes no class",
        "the sender enables no priority in them: check its PFC configuration and driver",
        True,
    ),
    "reserved class": (
        "PFC whose class vector is {number:#06x}: its upper eight bits are reserved",
        "receivers ignore those bits (IEEE 802.1Q clause 36), or the whole frame: check the sender's driver",
        True,
    ),
    "address": (
        "flow control to {mac} instead of 01:80:c2:00:00:01",
        "receivers ignore it, and switches may forward it (IEEE 802.1Q clause 36): the sender is wrong",
        False,
    ),
}
"""By ``OddControl.why``: what, what it means, and whether it is only a note."""


def pause_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield long pauses by class, pauses that cannot be judged, PFC with Pause, and odd frames."""
    judged: dict[_Group, dict[str, PausedPort]] = defaultdict(dict)
    unjudged: dict[int | None, dict[str, PausedPort]] = defaultdict(dict)
    for port in sorted(facts.pauses, key=lambda port: -port.least):
        if facts.seconds and _long(port.least, port.longest_least, facts.seconds):
            judged[port.cls, _is_storm(port)].setdefault(_place(port), port)
        elif port.xoff and _long(port.most, port.longest_most, facts.seconds):
            unjudged[port.cls].setdefault(_place(port), port)
    for (cls, storm), ports in judged.items():
        yield _paused(facts, cls, ports, storm=storm)
    for cls, ports in unjudged.items():
        yield _not_judged(facts, cls, ports)
    yield from _both_kinds(facts)
    yield from _odd(facts)


def of_links(
    links: Collection[str], what: str, meaning: str, *, note: bool = False, unjudged: bool = False
) -> CaptureFinding:
    """Return the finding for several links, the worst first."""
    names = tuple(links)
    where = names[0] if len(names) == 1 else f"{len(names)} links, the first {names[0]}"
    return CaptureFinding(
        what=f"{where}: {what}",
        meaning=meaning,
        note=note,
        count=len(names),
        examples=names[:_EXAMPLES],
        unjudged=unjudged,
    )


def _long(paused: float, longest: float, seconds: float) -> bool:
    """Return whether pauses are more than smoothing. Without a duration of the capture, they are."""
    return paused > PAUSED_SHARE * seconds or longest >= STORM_SECONDS or not seconds


def _is_storm(port: PausedPort) -> bool:
    return port.xoff >= _STORM_FRAMES and not port.xon


def _place(port: PausedPort) -> str:
    return port.link if port.direction else f"{port.link}, from {port.sender}"


def _class(cls: int | None) -> str:
    return "all classes" if cls is None else f"priority {cls}"


def _paused(facts: AnalysisFacts, cls: int | None, ports: Mapping[str, PausedPort], *, storm: bool) -> CaptureFinding:
    worst = next(iter(ports.values()))
    up_to = "up to " if len(ports) > 1 else ""
    known = worst.paused is not None and worst.paused >= worst.least
    bound = "" if known else ", at any link rate up to 800 Gb/s"
    at_least = up_to if known else "at least "
    share = f"{worst.least / facts.seconds:.0%} of the capture"
    what = f"{_class(cls)} paused for {at_least}{format_time(worst.least)}, {share}"
    if storm:
        return of_links(
            ports,
            f"{what}{bound}, by {counted(sum(port.xoff for port in ports.values()), 'XOFF')} and no XON",
            "a PFC storm: the sender pauses its peer again and again and never resumes it; look for a receiver or"
            " NIC that hangs, and for a PFC watchdog",
        )
    return of_links(ports, what + bound, "congestion downstream, or a receiver that stopped reading")


def _not_judged(facts: AnalysisFacts, cls: int | None, ports: Mapping[str, PausedPort]) -> CaptureFinding:
    worst = max(ports.values(), key=lambda port: port.most)
    share = f", {worst.most / facts.seconds:.0%} of the capture" if facts.seconds else ""
    xoff, xon = (sum(getattr(port, name) for port in ports.values()) for name in ("xoff", "xon"))
    known = worst.paused is not None and worst.paused == worst.most
    return of_links(
        ports,
        f"{_class(cls)} paused by {counted(xoff, 'XOFF')} and {xon} XON, "
        f"between {format_time(worst.least)} and {format_time(worst.most)}{share}",
        "the capture is too short for a verdict: capture for longer"
        if known or not facts.seconds
        else "the duration of quanta depends on the link's rate, which is not in the file: use --rate",
        unjudged=True,
    )


def _both_kinds(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield links with Pause, which stops all classes: a link has either Pause or PFC (802.1Q clause 36.1)."""
    kinds: dict[str, set[bool]] = defaultdict(set)
    for port in facts.pauses:
        kinds[_place(port)].add(port.cls is None)
    both = [place for place, found in kinds.items() if len(found) > 1]
    if both:
        yield of_links(
            both,
            "both PFC and IEEE 802.3 Pause from one sender",
            "Pause stops every priority, including lossy ones; a link must use only one of them",
        )
    stopping = {_place(port) for port in facts.pauses if port.cls is None and port.xoff}
    if only := [place for place, found in kinds.items() if found == {True} and place in stopping]:
        yield of_links(
            only,
            "IEEE 802.3 Pause, which stops all priorities",
            "global pause is enabled instead of PFC: lossy traffic and RoCE stop together",
            note=True,
        )


def _odd(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    groups: dict[tuple[str, int], list[OddControl]] = defaultdict(list)
    for odd in facts.odd_control:
        groups[odd.why, odd.number].append(odd)
    for (why, number), frames in groups.items():
        what, meaning, note = _ODD[why]
        mac = number.to_bytes(6).hex(":")
        count = counted(sum(odd.frames for odd in frames), "frame")
        places = dict.fromkeys(f"{odd.link}, from {odd.sender}" for odd in frames)
        yield of_links(places, f"{count} of {what.format(number=number, mac=mac)}", meaning, note=note)
