"""Findings about flow control: long pauses, storms, and frames that deviate from the standards."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, OddControl, PausedPort

PAUSED_SHARE: Final = 0.1
"""Share of the capture's duration. Pauses beyond it are more than smoothing."""
STORM_SECONDS: Final = 0.2
"""Seconds. An uninterrupted pause of this length is a storm: the usual default of PFC watchdogs."""
_STORM_FRAMES: Final = 3
"""This many XOFFs without an XON are a storm, if they stopped traffic."""
_EXAMPLES: Final = 10
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
        "it pauses nothing (IEEE 802.3 annex 31D), but some NICs obey PFC to their own address: the sender is wrong",
        False,
    ),
}
"""By ``OddControl.why``: what, what it means, and whether it is only a note."""


def pause_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield long pauses by class, pauses that cannot be judged, PFC with Pause, and odd frames."""
    judged: dict[tuple[int | None, bool], dict[str, PausedPort]] = defaultdict(dict)
    unjudged: dict[tuple[int | None, bool], dict[str, PausedPort]] = defaultdict(dict)
    for port in sorted(facts.pauses, key=lambda port: -port.least):
        if facts.seconds and _long(port.least, port.longest_least, facts.seconds):
            judged[port.cls, _is_storm(port)].setdefault(_place(port), port)
        elif port.xoff and _long(port.most, port.longest_most, facts.seconds):
            unjudged[port.cls, False].setdefault(_place(port), port)
    for storm, places, ports in _by_places(judged):
        yield _paused(facts, places, ports, storm=storm)
    for _, places, ports in _by_places(unjudged):
        yield _not_judged(facts, places, ports)
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


def _by_places(
    found: Mapping[tuple[int | None, bool], Mapping[str, PausedPort]],
) -> Iterator[tuple[bool, Collection[str], list[PausedPort]]]:
    """Yield each group of classes that are paused at the same places: whether by a storm, the places, the ports."""
    groups: dict[tuple[bool, bool, frozenset[str]], list[Mapping[str, PausedPort]]] = defaultdict(list)
    for (cls, storm), ports in found.items():
        groups[cls is None, storm, frozenset(ports)].append(ports)
    for (_, storm, _), classes in groups.items():
        yield storm, classes[0], [port for ports in classes for port in ports.values()]


def _classes(ports: Sequence[PausedPort]) -> str:
    """Return the classes of ports in words; a run of three or more by its ends."""
    classes = sorted({port.cls for port in ports if port.cls is not None})
    if not classes:
        return "all classes"
    if len(classes) == 1:
        return f"priority {classes[0]}"
    runs: list[list[int]] = []
    for cls in classes:
        if runs and cls == runs[-1][-1] + 1:
            runs[-1].append(cls)
        else:
            runs.append([cls])
    words = [word for run in runs for word in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    *others, last = words
    return f"priorities {', '.join(others)} and {last}" if others else f"priorities {last}"


def _frames(ports: Sequence[PausedPort]) -> tuple[str, int, str]:
    """Return the numbers of XOFFs, in words, and XONs: of each class if they are equal, as in frames for several."""
    xoff, xon = Counter[int | None](), Counter[int | None]()
    for port in ports:
        xoff[port.cls] += port.xoff
        xon[port.cls] += port.xon
    numbers = {(xoff[cls], xon[cls]) for cls in xoff}
    if len(xoff) > 1 and len(numbers) == 1:
        ((off, on),) = numbers
        return counted(off, "XOFF"), on, " each"
    return counted(xoff.total(), "XOFF"), xon.total(), ""


def _paused(
    facts: AnalysisFacts, places: Collection[str], ports: Sequence[PausedPort], *, storm: bool
) -> CaptureFinding:
    worst = max(ports, key=lambda port: port.least)
    up_to = "up to " if len(places) > 1 or len({port.least for port in ports}) > 1 else ""
    known = worst.paused is not None and worst.paused >= worst.least
    bound = "" if known else ", at any link rate up to 800 Gb/s"
    at_least = up_to if known else "at least "
    share = f"{worst.least / facts.seconds:.0%} of the capture"
    what = f"{_classes(ports)} paused for {at_least}{format_time(worst.least)}, {share}"
    if storm:
        xoffs, _, each = _frames(ports)
        return of_links(
            places,
            f"{what}{bound}, by {xoffs}{each} and no XON",
            "a PFC storm: the sender pauses its peer again and again and never resumes it; look for a receiver or"
            " NIC that hangs, and for a PFC watchdog",
        )
    return of_links(places, what + bound, "congestion downstream, or a receiver that stopped reading")


def _not_judged(facts: AnalysisFacts, places: Collection[str], ports: Sequence[PausedPort]) -> CaptureFinding:
    worst = max(ports, key=lambda port: port.most)
    share = f", {worst.most / facts.seconds:.0%} of the capture" if facts.seconds else ""
    xoffs, xon, each = _frames(ports)
    known = worst.paused is not None and worst.paused == worst.most
    return of_links(
        places,
        f"{_classes(ports)} paused by {xoffs} and {xon} XON{each}, "
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
