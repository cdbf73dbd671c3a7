"""What an analysis found: plain values, in bytes, float seconds and bits per second, with names for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.read.packet_batch import Damage
    from lab.analysis.results.loss_facts import GoBackN, Loss, LossCause, MissingPsns


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Order statistics of a duration, in seconds, true to within 3 percent; all 0 when ``count`` is."""

    count: int
    least: float
    p50: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """One direction to one QP, as one link saw it.

    ``copies`` of its packets are in the file again, as they left a router or switch that they had been seen to come
    into, or further on, and are counted nowhere else. ``messages`` counts them by kind, ``partial`` more of which
    the capture lacks packets or the size, ``sizes`` by the least power of two, in bytes, that is not less than
    their size. ``goodput`` is payload in bit/s from the first packet to the last, without that of the first one, of
    packets that the receiver takes: those with the PSN it expects (IBA vol. 1 section 9.7.3), and what it has
    acknowledged; ``read_goodput`` is what READs brought back, up to the last response. ``gaps`` counts jumps ahead
    and ``missing`` the PSNs in them; ``late`` packets filled a gap without others being sent again (reordered),
    ``resent`` ones stepped back, in ``go_back_n`` episodes, and ``repeats`` of them were only what was lost
    (selective repeat); ``rnr_retries`` of the episodes, of ``rnr_resent`` packets, followed an RNR NAK;
    ``unanswered`` is the seconds from the last packet that came back to its end where it asked twice or more in
    them, else 0; ``duplicates`` had been taken before. ``unseen`` PSNs were acknowledged but not captured. What a
    link saw first counts as expected: of a QP whose first packet was lost before, resent ones are duplicates.
    ``marked`` packets came with CE (RFC 3168), ``answers`` counts AETHs by what they say (tables 43 and 46),
    ``cnps`` those sent to this QP (annex A17.9.3), ``round_trip`` times requests that ask for an ACK to the AETH
    with their PSN, ``cnp_delay`` the time from the last packet that was seen marked the other way to each of them;
    packets marked behind this place give none. ``peer`` is the QP of the other direction, None when it was not
    found.

    ``dscps`` are those of the outermost IP header, the first packet's first, and ``pcp`` the priority of its VLAN
    tag. ``paused_timeouts`` of the episodes, of ``paused_resent`` packets, came as flow control had stopped a link
    for most of the time that the requester's timer ran. ``looped`` packets went in a circle. ``never_answered`` is
    the seconds from the first packet to the last, where it asked for one PSN again and again and nothing came back
    that could be an answer, though others were answered; else 0.
    """

    link: str
    vni: int | None
    src: str
    dst: str
    qp: int
    transport: str
    peer: int | None
    dscps: tuple[int, ...]
    pcp: int | None
    packets: int
    copies: int
    looped: int
    bytes: int
    payload: int
    goodput: float
    read_goodput: float
    seconds: float
    messages: dict[str, int]
    sizes: dict[int, int]
    message_bytes: int
    partial: int
    smallest: int
    largest: int
    gaps: int
    missing: int
    late: int
    resent: int
    go_back_n: int
    repeats: int
    rnr_retries: int
    rnr_resent: int
    paused_timeouts: int
    paused_resent: int
    unanswered: float
    never_answered: float
    duplicates: int
    out_of_sequence: int
    unseen: int
    response_gaps: int
    answers: dict[str, int]
    marked: int
    marked_share: float
    not_ect: int
    cnps: int
    cnp_spacing: Percentiles
    cnp_delay: Percentiles
    round_trip: Percentiles


@dataclass(frozen=True, slots=True)
class PausedPort:
    """Pause frames of one class at one link (IEEE 802.1Q clause 36); ``cls`` None is 802.3's Pause, for all of it.

    ``direction`` is that of the frames: ``in`` pauses this end of the link, ``out`` the other; where the capture does
    not know it, ``sender``, the MAC address that they came from, tells who paused the other one. ``paused`` is in
    seconds and ``share`` of the capture's duration, both None when the rate is not known and no XON told the end.
    ``least`` and ``most`` bound ``paused``, ``longest_least`` and ``longest_most`` the longest pause, in seconds:
    without the rate at least for what the quanta last at 800 Gb/s, and at most until an XON or the capture's end.
    """

    link: str
    direction: str
    sender: str
    cls: int | None
    xoff: int
    xon: int
    pairs: int
    expired: int
    paused: float | None
    longest: float | None
    share: float | None
    least: float
    most: float
    longest_least: float
    longest_most: float


@dataclass(frozen=True, slots=True)
class OddControl:
    """MAC control frames from ``sender`` that are not as the standards have them.

    ``why`` is ``opcode``, ``no class``, ``reserved class`` or ``address``, and ``number`` what is wrong: the opcode,
    the class vector, or the destination's MAC address.
    """

    link: str
    sender: str
    why: str
    number: int
    frames: int


@dataclass(frozen=True, slots=True)
class FirstPause:
    """``end`` paused ``peer`` first at ``since``, in seconds since the first packet of the file.

    Both are interfaces; one that the capture does not name is known by the other, or by its MAC address. ``share`` is
    of the capture's duration, None where it is not known. ``behind`` are the pauses that the paused node then sent.
    """

    end: str
    peer: str
    since: float
    xoffs: int
    share: float | None
    behind: tuple[FirstPause, ...]


@dataclass(frozen=True, slots=True)
class PauseTree:
    """Pauses of one priority (None is all of a link) that ``node`` began, which nobody had paused before."""

    priority: int | None
    node: str
    since: float
    pauses: tuple[FirstPause, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Parallel links: those that carried packets between the same hosts with the same TTL. ``bytes`` by link.

    ``jain`` is Jain's index of the bytes: 1 for an even spread, 1/n when one of n links carries all.
    """

    bytes: dict[str, int]
    flows: dict[str, int]
    jain: float


@dataclass(frozen=True, slots=True)
class MarkedHop:
    """A flow at one link of its path: DSCP, packets, how many came with CE, and their share."""

    link: str
    direction: str
    ttl: int
    dscp: int | None
    packets: int
    marked: int
    marked_share: float


@dataclass(frozen=True, slots=True)
class FlowPath:
    """A flow that several links have seen, from the one that saw it first to the last."""

    src: str
    dst: str
    qp: int
    hops: tuple[MarkedHop, ...]


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """A flow of which ``losses`` were all of frames of ``least`` bytes or more, and ``delivered`` at most arrived."""

    link: str
    src: str
    dst: str
    qp: int
    losses: int
    least: int
    delivered: int


@dataclass(frozen=True, slots=True)
class IcmpError:
    """``sender`` reported ``packets`` times that one of ``what`` (RoCEv2, VXLAN, GENEVE) did not get to ``dst``.

    ``kind`` is how, ``mtu`` in bytes of IP the one that it names when they were too large.
    """

    link: str
    sender: str
    kind: str
    what: str
    src: str
    dst: str
    mtu: int | None
    packets: int


@dataclass(frozen=True, slots=True)
class LoopLink:
    """A packet in a circle came by ``link`` so many ``times``, between these MAC addresses.

    ``turned``: both ways, so that the ends of the link send it to each other.
    """

    link: str
    times: int
    turned: bool
    macs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A routing loop: ``packets`` of a stream went in a circle of ``hops`` (0 where not known).

    ``psn`` is of the one that came by most often, at the first of ``links``.
    """

    src: str
    dst: str
    qp: int
    psn: int
    packets: int
    hops: int
    links: tuple[LoopLink, ...]


@dataclass(frozen=True, slots=True)
class TunnelFacts:
    """What one VNI carried between two inner addresses over one link (RFC 7348)."""

    link: str
    vni: int
    src: str
    dst: str
    packets: int
    bytes: int
    roce: int


@dataclass(frozen=True, slots=True)
class FlowOverTime:
    """A flow by intervals: goodput in bit/s, packets marked CE, and sent again in steps back that began there.

    ``peak`` is the highest goodput: of an interval, or of a flow's own time where that is shorter. ``naks`` and
    ``cnps`` are those that came back: answers other than ACK, and CNPs. What never happened is empty.
    """

    link: str
    vni: int | None
    src: str
    dst: str
    qp: int
    goodput: tuple[float, ...]
    peak: float
    marked: tuple[int, ...]
    resent: tuple[int, ...]
    naks: tuple[int, ...]
    cnps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PauseOverTime:
    """A paused port and class, as in ``PausedPort``; ``paused`` is the share of each interval."""

    link: str
    direction: str
    sender: str
    cls: int | None
    paused: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OverTime:
    """Intervals of ``interval`` seconds from the first packet of the file on: more of them make each one longer.

    ``flows`` are those that carried data or asked for it, ``pauses`` ports whose pauses have known ends; of both the
    first 1024 that the file has.
    """

    interval: float
    flows: Sequence[FlowOverTime]
    pauses: tuple[PauseOverTime, ...]


@dataclass(frozen=True, slots=True)
class IcrcErrors:
    """Packets of a flow whose ICRC was ``wrong`` at ``link``, of those ``checked`` there.

    ``after`` is the last link before it that saw the flow with no wrong one, None where there is none.
    """

    link: str
    src: str
    dst: str
    qp: int
    wrong: int
    checked: int
    after: str | None


@dataclass(frozen=True, slots=True)
class Icrcs:
    """ICRCs checked and wrong (IBA vol. 1 section 7.8.1).

    Those of ``unknown`` packets cannot be checked: they were not captured whole, or are RoCEv1, fragments, or behind
    IPv6 extension headers.
    """

    right: int
    wrong: int
    unknown: int


@dataclass(frozen=True, slots=True)
class CaptureFinding:
    """Something that looks wrong: what and where in one line, and what it usually means.

    A ``note`` is no fault of the network: how this capture was made explains it. What is ``unjudged`` may be one, but
    the capture does not have what would decide it. ``count`` flows, links or packets have it in common, of which
    ``examples`` are the first ten.
    """

    what: str
    meaning: str
    note: bool = False
    count: int = 1
    examples: tuple[str, ...] = ()
    unjudged: bool = False


@dataclass(frozen=True, slots=True)
class AnalysisFacts:
    """Everything. Lists that could grow with the file hold the first of their kind; the counts are complete.

    ``left_out`` packets were not analysed: a filter did not let them through, or they could not be read. ``short``
    packets were cut before their length was written, by a mirror. ``mirrored`` ones came in GRE or ERSPAN, and are as
    the mirrored port saw them. ``copies_alike`` of the flows' copies have the TTL of their originals. ``rocev1`` of
    the ``roce`` ones are RoCEv1, and ``not_decoded`` counts packets of which nothing else is told, by what they are:
    the innermost header that has a name. Packets are up to ``backwards`` seconds earlier than ones before them in the
    file. ``untracked`` packets are of flows for which there was no room, and
    ``broken_off`` stories of lost packets and ``untimed`` latencies are not told for the same reason.
    ``pause_frames_hidden`` says why there would be none, and is empty where nothing hid them. ``losses``, and the
    ``causes`` that sum them up, are of flows that several links saw. ``emulated``: rocelab captured it, from hosts
    with SoftRoCE.
    """

    file: str
    packets: int
    left_out: int
    seconds: float
    backwards: float
    roce: int
    rocev1: int
    not_decoded: dict[str, int]
    short: int
    mirrored: int
    copies_alike: int
    pause_frames: int
    pause_frames_hidden: str
    emulated: bool
    untracked: int
    broken_off: int
    untimed: int
    dropped: dict[str, int]
    flows: Sequence[FlowFacts]
    go_back_n: tuple[GoBackN, ...]
    gaps: tuple[MissingPsns, ...]
    over_time: OverTime
    pauses: tuple[PausedPort, ...]
    odd_control: tuple[OddControl, ...]
    pause_trees: tuple[PauseTree, ...]
    spread: tuple[Spread, ...]
    paths: tuple[FlowPath, ...]
    loops: tuple[Loop, ...]
    size_losses: tuple[SizeLoss, ...]
    icmp_errors: tuple[IcmpError, ...]
    tunnels: tuple[TunnelFacts, ...]
    icrc: Icrcs | None
    icrc_errors: tuple[IcrcErrors, ...]
    damages: tuple[Damage, ...]
    damage_count: int
    losses: tuple[Loss, ...]
    causes: tuple[LossCause, ...]
    findings: tuple[CaptureFinding, ...]
