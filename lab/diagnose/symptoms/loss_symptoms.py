"""Symptoms of loss, found by comparing the counters of both ends of a link, or of all ports of a switch."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.conservation.locations import RESENT, vanishing
from lab.diagnose.symptom import Evidence, Sign
from lab.diagnose.symptoms import probes
from lab.diagnose.symptoms.classes import mismatched
from lab.telemetry.read import measures
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_UNDER_WAY: Final = 3
"""Packets that may be in flight between two readings of a link's ends, if RDMA devices or a sweep report losses."""
_ASTRAY: Final = 20
"""The same without such reports: an interrupted sampler reads the two ends at different times."""
_SWALLOWED: Final = 8
"""The minimum number of packets that entered a switch and did not leave it."""
_RETRIED: Final = 5
"""The minimum number of retransmissions."""
_LAST: Final = 1
"""Packets that may be in flight between two readings of a link's ends before any has arrived."""
_MOST: Final = 0.5
"""Share of sent packets. If more is lost, the reason may be a filter and not the link."""
_FILTERED: Final = re.compile(rf"udp dport {ROCEV2_PORT} counter packets ([1-9]\d*)")
_TUNNEL: Final = 50
"""Bytes that VXLAN over IPv4 adds to a packet (RFC 7348 section 5): the headers of Ethernet, VXLAN, UDP and IP."""
_GID: Final = re.compile(r"(?:infiniband/([^/\s]+)/ports/\d+/)?gids/(\d+):(\S+)")


def _vanished(facts: WindowFacts) -> Iterator[tuple[str, str, int, int, int, int]]:
    """Yield each direction of a link that loses packets.

    Items are the two ends, the packets and bytes lost, and the packets and bytes received.
    """
    changed = {change.port for change in facts.links if not change.up}
    balances = {hop.place: hop for hop in vanishing(facts, HopKind.LINK)}
    missed = sum(_again(facts).values()) + probes.missing(facts)
    if facts.devices and not missed and not balances:
        return
    dropped = sum(lane.dropped for lane in facts.lanes.values())  # drops account for missing packets
    allowed = _UNDER_WAY if missed and not dropped else _ASTRAY
    for name, port in facts.ports.items():
        if not port.peer or port.peer not in facts.ports or changed & {name, port.peer}:
            continue
        sent = [(lane.tx_packets, lane.tx_bytes) for lane in facts.by_port.get(name, ())]
        came = [(lane.rx_packets, lane.rx_bytes) for lane in facts.by_port.get(port.peer, ())]
        left, left_bytes = (sum(each) for each in zip(*sent, strict=True)) if sent else (0, 0)
        arrived, arrived_bytes = (sum(each) for each in zip(*came, strict=True)) if came else (0, 0)
        left -= max(
            0, facts.ports[port.peer].control - port.sent_pfc
        )  # frames that a program injected, which no port counts
        hop = balances.get(f"{name}--{port.peer}")
        if hop is not None:
            yield name, port.peer, hop.lost, max(0, left_bytes - arrived_bytes), arrived, arrived_bytes
        elif not facts.hops and left - arrived > allowed + left // 2000:
            yield name, port.peer, left - arrived, max(0, left_bytes - arrived_bytes), arrived, arrived_bytes


def _both_ends(facts: WindowFacts, name: str, peer: str, left: int, came: int) -> tuple[Evidence, ...]:
    """Return how many packets left a port, and how many came to its peer."""
    return (
        Evidence(says="packets sent", of=name, source="tx_prioN_packets", value=left, at=facts.end),
        Evidence(says="packets received", of=peer, source="rx_prioN_packets", value=came, at=facts.end),
    )


def vanishes_on_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """Some packets that leave one end of a link do not arrive at the other, and no port counts a drop."""
    for name, peer, lost, _, arrived, _ in _vanished(facts):
        if arrived and not _too_large(facts, name, peer):
            seen = _both_ends(facts, name, peer, lost + arrived, arrived)
            weight = 0.9 if facts.devices else 0.6
            yield Sign(f"{name}--{peer}", seen, weight if lost / (lost + arrived) < _MOST else min(weight, 0.6))


def nothing_arrives(facts: WindowFacts) -> Iterator[Sign]:
    """Nothing that leaves one end of a link arrives at the other, and neither end lost its carrier."""
    dark = facts.down | {change.port for change in facts.links if not change.up}
    for name, port in facts.ports.items():
        if port.peer not in facts.ports or dark & {name, port.peer}:
            continue
        left = sum(lane.tx_packets for lane in facts.by_port.get(name, ()))
        came = sum(lane.rx_packets for lane in facts.by_port.get(port.peer, ()))
        if left > _LAST and not came:
            yield Sign(f"{name}--{port.peer}", _both_ends(facts, name, port.peer, left, came), 0.9)


def only_small_ones_pass(facts: WindowFacts) -> Iterator[Sign]:
    """Only large packets are lost on a link, or the receiving end has a smaller MTU than its peer."""
    for name, peer, lost, lost_bytes, arrived, arrived_bytes in _vanished(facts):
        if why := _too_large(facts, name, peer):
            seen = [
                *_both_ends(facts, name, peer, lost + arrived, arrived),
                Evidence(
                    says="bytes of average size of a lost packet",
                    of=name,
                    source="tx_prioN_bytes",
                    value=round(lost_bytes / lost),
                    at=facts.end,
                ),
                *(
                    [
                        Evidence(
                            says="bytes of average size of a received packet",
                            of=peer,
                            source="rx_prioN_bytes",
                            value=round(arrived_bytes / arrived),
                            at=facts.end,
                        )
                    ]
                    if arrived
                    else []
                ),
                *why,
            ]
            yield Sign(f"{name}--{peer}", tuple(seen), 0.96 if _told_mtu(facts, peer, name) else 0.85)


def smaller_than_its_siblings(facts: WindowFacts) -> Iterator[Sign]:
    """A port between switches has a smaller MTU than another such port of the same switch, and than packets can have.

    These have at most the MTU of a NIC, and the headers of a tunnel. Links may have larger MTUs than that.
    """
    told: dict[str, list[Evidence]] = {}
    needed = max((facts.mtus.get(port, 0) for port in facts.ports if facts.is_host(port)), default=0)
    needed = needed + (_TUNNEL if facts.forwarding else 0) if needed else sys.maxsize
    for switch in facts.switches:
        ports = [port for port in facts.ports_of(switch) if port.peer and not facts.is_host(port.peer)]
        largest = max((facts.mtus.get(port.name, 0) for port in ports), default=0)
        for port in ports:
            if 0 < facts.mtus.get(port.name, 0) < min(largest, needed):
                link = "--".join(sorted((port.name, port.peer)))
                says = f"bytes of MTU; another port of {switch} to a switch has {largest}"
                told.setdefault(link, []).append(
                    Evidence(
                        says=says, of=port.name, source="ip link: mtu", value=facts.mtus[port.name], at=facts.end
                    )
                )
    for link, seen in told.items():
        yield Sign(link, tuple(seen), 0.8)


def _told_mtu(facts: WindowFacts, port: str, peer: str) -> int:
    """Return a port's MTU if the kernel reported it and it is smaller than its peer's; 0 otherwise."""
    told, config = facts.mtus.get(port, 0), facts.config(peer)
    other = facts.mtus.get(peer) or (config.mtu if config else 0)
    return told if 0 < told < other else 0


def _too_large(facts: WindowFacts, name: str, peer: str) -> list[Evidence]:
    """Return evidence that losses from a port to its peer depend on packet size; empty if they do not."""
    if mtu := _told_mtu(facts, peer, name):
        return [
            Evidence(
                says="bytes of MTU, smaller than that of its peer",
                of=peer,
                source="ip link: mtu",
                value=mtu,
                at=facts.end,
            )
        ]
    if seen := [sign for sign in probes.only_small_probes_pass(facts) if sign.place == f"{name}--{peer}"]:
        return list(seen[0].evidence)
    unanswered = _pings(facts)
    if not unanswered and facts.mtus.get(name) and facts.mtus.get(peer):
        return []  # the MTUs are known to suffice
    for end, other, lost, lost_bytes, arrived, arrived_bytes in _vanished(facts):
        if (end, other) == (name, peer) and arrived and lost / (lost + arrived) > 0.02:
            large, small = lost_bytes / lost, arrived_bytes / arrived
            if large > 1500 and large > 2 * small:
                nothing = Evidence(
                    says="no probe with ping -M do was made", of="", source="commands", value=0, at=facts.end
                )
                return unanswered or [nothing]
    return []


def _pings(facts: WindowFacts) -> list[Evidence]:
    """Return evidence of unanswered pings with the DF bit."""
    lost = [ran for ran in facts.ran if ran.argv[:1] == ("ping",) and "do" in ran.argv and ran.exit_code]
    return [
        Evidence(says=f"not answered: {' '.join(ran.argv)}", of=ran.node, source="ping", value=0, at=ran.seconds)
        for ran in lost[:2]
    ]


def swallowed_by_a_switch(facts: WindowFacts) -> Iterator[Sign]:
    """Packets of a lossless class enter a switch and do not leave it, and none of its ports counts a drop."""
    for switch in facts.switches:
        ports = list(facts.ports_of(switch))
        for priority in sorted({number for port in ports for number in facts.lossless(port.name)}):
            lanes = [facts.lane(port.name, priority) for port in ports]
            came, left = sum(lane.rx_packets for lane in lanes), sum(lane.tx_packets for lane in lanes)
            kept = sum(lane.dropped for lane in lanes) + sum(lane.deepest > 0 for lane in lanes) * 64
            if came - left - kept < _SWALLOWED or left > came * _MOST or _remapped(facts, switch):
                continue
            seen = (
                Evidence(
                    says="packets received",
                    of=switch,
                    source=measures.RX_PACKETS.series(priority),
                    value=came,
                    at=facts.end,
                ),
                Evidence(
                    says="packets sent, and none dropped by a port",
                    of=switch,
                    source=measures.TX_PACKETS.series(priority),
                    value=left,
                    at=facts.end,
                ),
                *(pinged := _pinged(facts)),
            )
            yield Sign(place=switch, evidence=seen, weight=0.85 if pinged else 0.6, priority=priority)


def something_else_passes(facts: WindowFacts) -> Iterator[Sign]:
    """A ping is answered, or a filter rule has hits, or a sweep stops: what RoCE lacks is known to work, or why."""
    if answered := _pinged(facts):
        yield Sign("", tuple(answered))
    yield from a_filter_counts(facts)
    yield from probes.no_probe_passes(facts)


def duplicates_are_received(facts: WindowFacts) -> Iterator[Sign]:
    """RDMA devices receive requests that they have received before."""
    for nic, counters in facts.devices.items():
        if count := counters.get("duplicate_request", 0):
            seen = Evidence(
                says="requests received twice", of=nic, source="duplicate_request", value=count, at=facts.end
            )
            yield Sign("", (seen,))


def _remapped(facts: WindowFacts, switch: str) -> bool:
    return any(facts.ports[port].node == switch for port, _ in mismatched(facts) if port in facts.ports)


def _pinged(facts: WindowFacts) -> list[Evidence]:
    good = [ran for ran in facts.ran if ran.argv[:1] == ("ping",) and not ran.exit_code]
    return [
        Evidence(says=f"answered: {' '.join(ran.argv)}", of=ran.node, source="ping", value=0, at=ran.seconds)
        for ran in good[:1]
    ]


def a_filter_counts(facts: WindowFacts) -> Iterator[Sign]:
    """A filter rule on UDP 4791 has hits in the output of a command that a user ran."""
    for ran in facts.ran:
        if ran.argv[:1] == ("nft",) and (hits := _FILTERED.findall(ran.printed)):
            says = f"packets match a rule on UDP {ROCEV2_PORT}: {' '.join(ran.argv)}"
            yield Sign(
                ran.node, (Evidence(says=says, of=ran.node, source="nft", value=sum(map(int, hits)), at=ran.seconds),)
            )


def an_address_has_moved(facts: WindowFacts) -> Iterator[Sign]:
    """A transfer's destination is gone: its address was removed and added again, or its GID index has another GID."""
    for transfer in facts.transfers:
        seen = []
        if transfer.dst in facts.readdressed:
            at = facts.readdressed[transfer.dst]
            seen.append(
                Evidence(
                    says="its address was removed and added again",
                    of=transfer.dst,
                    source="ip monitor route",
                    value=1,
                    at=at,
                )
            )
        seen += _gid(facts, transfer.dst, transfer.gid_index)
        got = facts.devices.get(transfer.dst, {}).get("rcvd_pkts")
        tried = facts.devices.get(transfer.src, {}).get("sent_pkts", 0)
        if seen and got == 0 and tried:
            none = Evidence(
                says=f"of {tried} packets from {transfer.src} received",
                of=transfer.dst,
                source="rcvd_pkts",
                value=0,
                at=facts.end,
            )
            yield Sign(transfer.dst, (none, *seen), 0.95 if len(seen) > 1 else 0.9)


def _gid(facts: WindowFacts, nic: str, index: int | None) -> list[Evidence]:
    """Return evidence if a printed GID table has another address at the index in use."""
    address, (host, _, interface) = facts.addresses.get(nic, ""), nic.partition(":")
    if index is None or address.count(".") != 3:
        return []
    first, second, third, fourth = map(int, address.split("."))
    mine = f"ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"
    for ran in facts.ran:
        printed = _GID.findall(ran.printed) if ran.node == host else []
        table = {number: gid for device, number, gid in printed if device.rpartition(".")[2] in {"", interface}}
        if str(index) in table and not table[str(index)].endswith(mine):
            says = f"the transfer uses GID {index}, which is {table[str(index)]} instead of {address}"
            return [Evidence(says=says, of=nic, source="gids", value=index, at=ran.seconds)]
    return []


def sent_again(facts: WindowFacts) -> Iterator[Sign]:
    """RDMA devices report out-of-sequence packets or ACK timeouts."""
    found = _again(facts)
    if sum(found.values()) >= _RETRIED:
        seen = tuple(
            Evidence(says="retransmitted, or requested again", of=nic, source=name, value=count, at=facts.end)
            for (nic, name), count in sorted(found.items(), key=lambda each: -each[1])[:3]
        )
        yield Sign("", seen)


def _again(facts: WindowFacts) -> dict[tuple[str, str], int]:
    return {
        (nic, name): count
        for nic, counters in facts.devices.items()
        for name in RESENT
        if (count := counters.get(name, 0))
    }
