"""Words that people try first and that are no commands: what there is instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAULT: Final = "rocelab fault inject link-down leaf1:swp1 takes a link down, rocelab fault ls --kinds has the others"
_PROGRAM: Final = "it runs in a node: rocelab exec h1 -- {word} ..."
_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    _FAULT: ("link", "impair", "fail", "break", "inject", "heal", "shutdown", "flap", "interface"),
    _PROGRAM: ("ping", "traceroute", "mtr", "tcpdump", "iperf3", "ip", "tc", "ethtool", "rping", "ib_write_bw"),
    "rocelab ls lists fabrics, rocelab inspect nodes": ("list", "ps", "nodes", "fabrics"),
    "rocelab up FILE builds a fabric": ("start", "create", "deploy", "build", "apply"),
    "rocelab down takes a fabric away": ("stop", "destroy", "delete", "remove", "clean"),
    "rocelab shell NODE opens a shell, rocelab vtysh SWITCH its routing": ("ssh", "login", "connect", "attach", "sh"),
    "rocelab status, inspect, counters and qos show": ("show", "get", "describe", "info"),
    "rocelab top, or rocelab counters --watch": ("htop", "stats", "monitor", "watch", "live", "pfc"),
    "rocelab replay RUN plays a recording": ("play", "playback"),
    "rocelab compare A B compares two recordings": ("diff", "versus", "vs"),
    "rocelab rdma bw SRC DST": ("perftest", "bw", "traffic", "incast"),
    "rocelab capture LINK, then rocelab dissect FILE": ("pcap", "sniff", "decode", "wireshark", "tshark"),
    "rocelab path SRC DST, or rocelab follow FILE QPN:PSN for one packet": ("trace", "route", "ecmp"),
}


def instead_of(word: str) -> str:
    """What there is for somebody who tried ``word``; "" when nothing is known."""
    return next((remedy.format(word=word) for remedy, words in _INSTEAD.items() if word in words), "")
