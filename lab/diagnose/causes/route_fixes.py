"""The commands that restore routes: as manual ones have to be, or as they are apart from one property."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.audit.rules.route_widths import ADVERTISED, LEARNED
from lab.diagnose.causes.setting_kinds import is_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.audit.objects.kernel_objects import RouteAudit
    from lab.diagnose.differing import DifferingSetting

_OF_ONE_PROPERTY: Final = frozenset({"mtu", "prefsrc", "hop limit", "weights"})
"""Settings of a route that a command restores with all others as they are."""
_WEIGHT: Final = re.compile(r" weight \d+")
_SOURCE: Final = re.compile(r"(?:^| )src \S+")
_MTU: Final = re.compile(r"(?:^| )mtu \d+")
_HOP_LIMIT: Final = re.compile(r"(?:^| )hoplimit \d+")
_METRIC: Final = re.compile(
    r'"(mtu|window|rtt|rttvar|ssthresh|cwnd|advmss|reordering|hoplimit|initcwnd|rto_min|initrwnd|quickack|congestion'
    r'|fastopen_no_cookie|ecn|tcp_usec_ts)": ("?)([\w-]+)\2'
)
"""A metric in the JSON of ip-route(8): its name, and its value, which is null for a feature."""
_TIMES: Final = frozenset({"rtt", "rttvar", "rto_min"})
"""Metrics in milliseconds."""
_CONGESTION: Final = "congestion"
_NO_VALUE: Final = "null"
_LEADING: Final = {"presence": 0, "next hops": 1, "gateway": 2}
"""Settings of a route, from the one that says most."""
_GATEWAY: Final = re.compile(r"^([0-9a-f.:]+) of \S+?(?:, protocol (\S+))?$")
"""The gateway that a route should have, and the protocol that it has."""
_NOT_LEARNED: Final = re.compile(r"protocol (?:boot|static|kernel|dhcp|ra)\b")
_MANUAL: Final = re.compile(r"type (unicast|local), protocol (boot|static|kernel), next hops (.*)")
"""The type, protocol and next hops of a route that is missing and no daemon learns, with further options."""
_NEXT_HOP: Final = re.compile(r"(?:^|(?<=, ))(?:via \S+ )?dev [^,]+")


def is_unlearned(setting: DifferingSetting) -> bool:
    """Return whether a difference is a route that no daemon learned, or not over all paths."""
    if setting.kind != "route" or setting.setting == ADVERTISED:
        return setting.kind == "route"
    if setting.protocol not in {"", *LEARNED}:
        return False
    if setting.setting == "presence":
        return setting.value.startswith("absent") and not _NOT_LEARNED.search(setting.expected)
    if setting.setting != "next hops" or not setting.value.startswith(("via ", "dev ", "none")):
        return False  # like a blackhole, which no neighbour advertises
    hops, expected = ({*said.split(", ")} for said in (setting.value, setting.expected))
    return setting.expected.endswith("next hops") or hops < expected


def leading(route: Sequence[DifferingSetting]) -> DifferingSetting:
    """Return the setting of a route that says most about it: whether it should exist, or its next hops."""
    return min(route, key=lambda each: _LEADING.get(each.setting, len(_LEADING)))


def of_route(setting: DifferingSetting, words: list[str], same: Sequence[DifferingSetting]) -> str:
    """Return the command that restores a route; "" if there is none, as for a route that a daemon has to learn.

    ``words`` are those of its name, ``same`` all settings of it that differ.
    """
    version = 6 if ":" in words[0] else 4
    family = "-6 " if version == 6 else ""
    if is_new(setting):
        return f"ip {family}route del {' '.join(words)}"
    if is_unlearned(setting):
        return ""  # a manual route would take the place of what the daemon learns later
    if setting.setting in _OF_ONE_PROPERTY and setting.route and not _is_weighted(setting):
        return f"ip {family}route replace {' '.join(words)} {_with_expected(setting.route, [setting, *same])}"
    protocol = next((each.expected for each in same if each.setting == "protocol"), setting.protocol)
    hops: list[str] = []
    match setting.setting:
        case "presence":
            if found := _MANUAL.search(setting.expected):
                protocol, hops = found[2], _NEXT_HOP.findall(found[3])
                words = ["local", *words] if found[1] == "local" else words
        case "next hops":
            hops = setting.expected.split(", ") if setting.expected.startswith(("via ", "dev ")) else []
        case "gateway":
            if (found := _GATEWAY.match(setting.expected)) and setting.interface:
                protocol, hops = protocol or found[2] or "", [f"via {found[1]} dev {setting.interface}"]
    if not hops:
        return ""
    through = [_next_hop(each, version) for each in hops]
    way = through[0] if len(through) == 1 else " ".join(f"nexthop {each}" for each in through)
    proto = f"proto {protocol} " if protocol else ""
    return f"ip {family}route replace {' '.join(words)} {proto}{way}"


def _next_hop(audited: str, version: int) -> str:
    """Return a next hop as ip-route(8) takes it: without its state, and with the family of another one."""
    words = [word for word in audited.split() if word not in {"dead", "linkdown"}]
    if version == 4 and words[:1] == ["via"] and ":" in "".join(words[1:2]):
        words.insert(1, "inet6")
    return " ".join(words)


def words_as_it_is(route: RouteAudit) -> str:
    """Return a unicast route after its prefix as ip-route(8) takes it; "" for other routes, and those of tunnels."""
    if route.type != "unicast" or not route.next_hops or "encap" in route.options:
        return ""
    version = 6 if ":" in route.prefix else 4
    through = [_next_hop(each, version) for each in route.next_hops]
    scope, source = (route.options.get(name, "") for name in ("scope", "prefsrc"))
    return " ".join(filter(None, (
        f"proto {route.protocol}" if route.protocol else "",
        f"scope {scope}" if version == 4 and scope in {"link", "host"} else "",
        f"src {source}" if source else "",
        *(_metric(name, value) for name, _, value in _METRIC.findall(route.options.get("metrics", ""))),
        through[0] if len(through) == 1 else " ".join(f"nexthop {each}" for each in through),
    )))  # fmt: skip


def _metric(name: str, value: str) -> str:
    """Return a metric as ip-route(8) takes it, whose output has other names and no units."""
    if value == _NO_VALUE:
        return f"features {name}"
    return f"{'congctl' if name == _CONGESTION else name} {value}{'ms' if name in _TIMES else ''}"


def _is_weighted(setting: DifferingSetting) -> bool:
    """Return whether a route should have different weights: nothing says which next hop has which."""
    return setting.setting == "weights" and len({*setting.expected.split(" : ")}) > 1


def _with_expected(said: str, settings: Iterable[DifferingSetting]) -> str:
    """Return a route with the expected hop limit, the port's MTU, the kernel's source, or no weights."""
    for each in settings:
        match each.setting:
            case "prefsrc":
                said = _SOURCE.sub("", said)
            case "mtu":
                said = _MTU.sub("", said)
            case "weights" if not _is_weighted(each):
                said = _WEIGHT.sub("", said)
            case "hop limit":
                limit = f"hoplimit {each.expected} " if each.expected.isdigit() else ""
                said = limit + _HOP_LIMIT.sub("", said).strip()
    return said.strip()
