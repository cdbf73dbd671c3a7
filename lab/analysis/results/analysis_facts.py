"""The facts of an analysis: plain values in bytes, float seconds and bits per second, with readable names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.read.packet_batch import Damage
    from lab.analysis.results.icrc_facts import IcrcErrors, Icrcs
    from lab.analysis.results.loss_facts import GoBackN, Loss, LossCause, MissingPsns


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Order statistics of a duration, in seconds, accurate to 3 percent; all 0 if ``count`` is."""

    count: int
    least: float
    p50: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """One direction to one QP, as captured at one link.

    * ``copies``: further copies of its packets in the file, for example from a mirror on both sides of a switch. They
      are counted nowhere else.
    * ``dscps``: of the outermost IP header, that of the first packet first. ``pcp``: the priority of the VLAN tag.
    * ``messages``: by kind. ``partial``: messages that lack packets or the size in the capture. ``sizes``: by the
      smallest power of two, in bytes, that is not less than the message size.
    * ``goodput``: payload in bit/s from the first packet to the last, without that of the first. It counts packets
      that the receiver accepts: those with the expected PSN (IBA vol. 1 section 9.7.3), and those that it
      acknowledged.
    * ``read_goodput``: the payload of READ responses in bit/s, up to the last response.
    * ``gaps``: jumps ahead in the PSNs. ``missing``: the PSNs in these gaps. ``late``: packets that filled a gap and
      were not retransmissions (reordered).
    * ``displaced``: packets that the file has after ones with higher PSNs, although they were captured before: the
      file is not in time order.
    * ``resent``: retransmitted packets. ``go_back_n``: episodes of retransmission. ``repeats``: lost packets that
      were retransmitted alone (selective repeat).
    * ``rnr_retries``: episodes that followed an RNR NAK, with ``rnr_resent`` packets.
    * ``paused_timeouts``: episodes after a timeout, if flow control paused a link for most of the timeout;
      ``paused_resent`` are their packets.
    * ``unanswered``: seconds from the last packet in reverse direction to the end of the flow, if it retransmitted at
      least twice in that time; else 0.
    * ``never_answered``: seconds from the first packet to the last, if one PSN was retransmitted repeatedly and no
      answer was captured, although others were; else 0. ``without_answers``: the same, if the capture has no packet
      to the source host.
    * ``duplicates``: packets that the receiver had accepted before. PSN tracking starts with the first captured
      packet. If a QP's first packet was lost before this link, its retransmissions count as duplicates.
    * ``unseen``: PSNs that were acknowledged but not captured.
    * ``response_gaps``: places where READ responses to this QP are missing. ``responses``: the READ responses to it.
    * ``marked``: packets with CE (RFC 3168). ``marked_for``: seconds from the first of them to the last packet.
    * ``cnps``: CNPs to this QP (annex A17.9.3).
    * ``answers``: AETHs by meaning (tables 43 and 46).
    * ``round_trip``: time from a request with AckReq to the AETH with its PSN.
    * ``cnp_delay``: time from the last marked packet in reverse direction to each CNP. Packets that are marked after
      this link give none.
    * ``rate_before_cnps``, ``rate_after_cnps``: median rate in bit/s on the wire, from packet gaps, of up to 256 data
      packets before the first CNP that this flow's sender received, and after each CNP; 0 without any.
    * ``peer``: the QP of the reverse direction, None if it was not found.
    * ``beside``: missing PSNs that parallel links captured, because the flow was sprayed over them.
    * ``looped``: packets in a loop of routers or switches.
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
    beside: int
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
    displaced: int
    resent: int
    go_back_n: int
    repeats: int
    rnr_retries: int
    rnr_resent: int
    paused_timeouts: int
    paused_resent: int
    unanswered: float
    never_answered: float
    without_answers: float
    duplicates: int
    out_of_sequence: int
    unseen: int
    response_gaps: int
    responses: int
    answers: dict[str, int]
    marked: int
    marked_share: float
    marked_for: float
    not_ect: int
    cnps: int
    cnp_spacing: Percentiles
    cnp_delay: Percentiles
    rate_before_cnps: float
    rate_after_cnps: float
    round_trip: Percentiles


@dataclass(frozen=True, slots=True)
class PausedPort:
    """Pause frames of one class at one link (IEEE 802.1Q clause 36). ``cls`` None is 802.3 Pause, for all classes.

    ``direction`` is that of the frames: ``in`` pauses this end of the link, ``out`` the other end. If the capture has
    no directions, ``sender`` is the MAC address of the pausing end. ``paused`` is in seconds, and ``share`` is
    relative to the duration of the capture. Both are None if they depend on a link rate that is not known.

    ``least`` and ``most`` bound ``paused``, and ``longest_least`` and ``longest_most`` the longest pause, in seconds.
    Without the rate, the lower bound is the duration of the quanta at 800 Gb/s. The upper bound is the time until an
    XON or the end of the capture.
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
    """MAC control frames from ``sender`` that deviate from the standards.

    ``why`` is ``opcode``, ``no class``, ``reserved class`` or ``address``. ``number`` is the offending value: the
    opcode, the class vector, or the destination MAC address.
    """

    link: str
    sender: str
    why: str
    number: int
    frames: int


@dataclass(frozen=True, slots=True)
class FirstPause:
    """The first time that ``end`` paused ``peer``: ``since``, in seconds since the first packet of the file.

    Both are interfaces; one that the capture does not name is given by its peer or MAC address. ``share`` is relative
    to the duration of the capture, None if unknown. ``behind`` are the pauses that the paused node then sent.
    """

    end: str
    peer: str
    since: float
    xoffs: int
    share: float | None
    behind: tuple[FirstPause, ...]


@dataclass(frozen=True, slots=True)
class PauseTree:
    """Pauses of one priority (None is the whole link) that ``node`` began without being paused before."""

    priority: int | None
    node: str
    since: float
    pauses: tuple[FirstPause, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Parallel links: those that carried packets between the same hosts with the same TTL. ``bytes`` is by link.

    ``jain`` is Jain's index of the bytes: 1 for an even spread, 1/n if one of n links carries everything.
    """

    bytes: dict[str, int]
    flows: dict[str, int]
    jain: float


@dataclass(frozen=True, slots=True)
class MarkedHop:
    """A flow at one link of its path: DSCP, packets, those with ECT or CE, and those with CE.

    ``first`` and ``last`` are the times of its first and last packet, in seconds since the capture began.
    """

    link: str
    direction: str
    ttl: int
    dscp: int | None
    first: float
    last: float
    packets: int
    ect: int
    marked: int
    marked_share: float


@dataclass(frozen=True, slots=True)
class FlowPath:
    """A flow that several links captured, in the order of its path."""

    src: str
    dst: str
    qp: int
    hops: tuple[MarkedHop, ...]


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """A flow that loses frames of ``least`` bytes or more (``losses``), but delivers up to ``delivered`` bytes.

    ``reads``: it loses responses to READs instead. Both sizes are those of the data, and ``delivered`` is 0 if only
    ACKs arrive.
    """

    link: str
    src: str
    dst: str
    qp: int
    losses: int
    least: int
    delivered: int
    reads: bool


@dataclass(frozen=True, slots=True)
class IcmpError:
    """ICMP errors from ``sender``: ``packets`` reports about ``what`` (RoCEv2, VXLAN, GENEVE) to ``dst``.

    ``kind`` is the error. ``mtu`` is the reported MTU in bytes of IP, if packets were too large.
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
class UnansweredRequest:
    """A connection request (CM REQ) that ``src`` sent ``times`` times in ``seconds`` without an answer."""

    link: str
    src: str
    dst: str
    vni: int | None
    times: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RejectedConnection:
    """``times`` connections that the connection manager of ``src`` rejected (CM REJ) for one ``reason``."""

    link: str
    src: str
    dst: str
    vni: int | None
    reason: int
    times: int


@dataclass(frozen=True, slots=True)
class LoopLink:
    """A looping packet at one link: ``times`` it passed, and the MAC addresses between which it passed.

    ``turned``: it passed in both directions, so the two ends of the link send it to each other.
    """

    link: str
    times: int
    turned: bool
    macs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of routers: ``packets`` of a stream, in a circle of ``hops`` (0 if unknown). ``switched``: of switches.

    ``psn`` is that of the packet with the most passes at the first of ``links``, which it passed in
    ``vnis``. ``inner``: its inner TTL decreased, so that routers of the overlay forward it in a circle. Not
    ``certain``: the packet is an ACK, and the file lacks the requests; or it is a request, and the file has no answer
    of the time. Retries, and answers to them, look alike.
    """

    src: str
    dst: str
    qp: int
    psn: int
    packets: int
    hops: int
    switched: bool
    certain: bool
    inner: bool
    vnis: tuple[int, ...]
    links: tuple[LoopLink, ...]


@dataclass(frozen=True, slots=True)
class ClassChange:
    """A hop that changes the class of a flow's packets, by the copies of them at one link.

    ``before`` and ``after`` are the TTLs of the copies. ``what`` is ``DSCP``, ``ECT`` or ``CE``, which changes from
    ``old`` to ``new`` in ``packets``. For ECN, 1 is set and 0 is cleared.
    """

    link: str
    src: str
    dst: str
    qp: int
    before: int
    after: int
    what: str
    old: int
    new: int
    packets: int


@dataclass(frozen=True, slots=True)
class TunnelFacts:
    """The traffic of one VNI between two inner addresses over one link (RFC 7348)."""

    link: str
    vni: int
    src: str
    dst: str
    packets: int
    bytes: int
    roce: int


@dataclass(frozen=True, slots=True)
class FlowOverTime:
    """A flow by intervals: goodput in bit/s, packets marked CE, and resent packets by start of their episode.

    ``goodput`` is at most the rate of the link, if that is known. ``peak`` is the highest goodput: of an interval, or
    of the whole flow if it is shorter. ``naks`` and ``cnps`` are those in the reverse direction: answers other than
    ACK, and CNPs. A series without events is empty.
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
    """Intervals of ``interval`` seconds from the first packet of the file. Longer captures have longer intervals.

    ``flows`` are those that carried or requested data, ``pauses`` ports whose pauses have known ends. Both hold at
    most the first 1024.
    """

    interval: float
    flows: Sequence[FlowOverTime]
    pauses: tuple[PauseOverTime, ...]


@dataclass(frozen=True, slots=True)
class CaptureFinding:
    """A possible problem: what and where in one line, and what it usually means.

    A ``note`` is no fault of the network: the way in which the capture was made explains it. An ``unjudged`` finding
    may be a fault, but the capture lacks what would decide it. ``count`` flows, links or packets share the finding;
    ``examples`` are the first ten.
    """

    what: str
    meaning: str
    note: bool = False
    count: int = 1
    examples: tuple[str, ...] = ()
    unjudged: bool = False


@dataclass(frozen=True, slots=True)
class CapturedNic:
    """The congestion control of the NIC at one end of a captured link, as the capture file describes it.

    ``np``: it answers CE marks with CNPs. ``rp``: it slows QPs down on CNPs. ``min_time_between_cnps`` is in seconds,
    for each ``scope``. ``rate`` is the link's, in bit/s.
    """

    link: str
    port: str
    address: str
    np: bool
    rp: bool
    min_time_between_cnps: float
    scope: str
    rate: int | None


@dataclass(frozen=True, slots=True)
class CnpSpacing:
    """The least time in seconds between two CNPs from ``src`` to any QP of ``dst``; ``dst`` is empty for all."""

    link: str
    src: str
    dst: str
    least: float


@dataclass(frozen=True, slots=True)
class AnalysisFacts:
    """All facts. Lists that could grow with the file hold the first entries; the counts are complete.

    * ``left_out``: packets that were not analysed, because a filter excluded them or they could not be read.
    * ``short``: packets that a mirror truncated without adjusting their length fields. ``cut``: packets of which the
      capture has too little to decode them, because of its snap length.
    * ``mirrored``: packets in GRE or ERSPAN, decoded as the mirrored port saw them.
    * ``copies_alike``: copies of flows' packets that have the TTL of their originals.
    * ``rocev1``: packets of ``roce`` that are RoCEv1.
    * ``not_decoded``: packets without further facts, by their innermost known header.
    * ``backwards``: seconds by which a packet is earlier than one before it in the file, at most.
    * ``untracked``: packets of flows beyond the limit. ``broken_off``: flows whose PSN tracking ended early for lack
      of memory. ``untimed``: latencies that were not recorded for the same reason.
    * ``pause_frames_hidden``: why a filter would have excluded pause frames; empty if it would not.
    * ``losses``: of flows that several links captured. ``causes``: groups of these losses.
    * ``emulated``: rocelab captured the file, from hosts with SoftRoCE.
    * ``nics``: congestion control of NICs, from comments in the file. ``cnp_spacing``: of each NIC's CNPs.
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
    cut: int
    mirrored: int
    copies_alike: int
    pause_frames: int
    pause_frames_hidden: str
    emulated: bool
    nics: tuple[CapturedNic, ...]
    cnp_spacing: tuple[CnpSpacing, ...]
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
    class_changes: tuple[ClassChange, ...]
    loops: tuple[Loop, ...]
    size_losses: tuple[SizeLoss, ...]
    icmp_errors: tuple[IcmpError, ...]
    unanswered_requests: tuple[UnansweredRequest, ...]
    rejected_connections: tuple[RejectedConnection, ...]
    tunnels: tuple[TunnelFacts, ...]
    icrc: Icrcs
    icrc_errors: tuple[IcrcErrors, ...]
    damages: tuple[Damage, ...]
    damage_count: int
    losses: tuple[Loss, ...]
    causes: tuple[LossCause, ...]
    findings: tuple[CaptureFinding, ...]
