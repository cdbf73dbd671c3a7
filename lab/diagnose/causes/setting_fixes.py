"""The commands that give settings their expected values, for nodes as they are."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.frr_lines import is_definition
from lab.audit.difference import ABSENT, ANSWER, PRESENT, UNLIKE
from lab.audit.objects.routing_objects import BFD_SHUTDOWN, BGP_SHUTDOWN, MAPPED
from lab.audit.placement import ADDRESS, generic
from lab.audit.rules.address_rules import PREFIX_LENGTH
from lab.audit.rules.route_widths import ADVERTISED, ADVERTISED_BY
from lab.diagnose.causes.route_fixes import is_unlearned, leading, of_route
from lab.diagnose.causes.setting_kinds import XDP, is_filter_hook, is_new
from lab.routing.frr_secrets import has_hidden_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.diagnose.differing import DifferingSetting

EITHER: Final = "one of the two: "
"""The beginning of a choice between two commands."""


def remedies(settings: Iterable[DifferingSetting]) -> list[str]:
    """Return the commands that restore settings, each once. A route is restored as a whole, by one command.

    - of routes that a node did not learn in full, one is enough to find the reason
    - lines of FRR are removed before others are added: FRR removes the route map of a session whatever its name
    - route maps and lists are removed after the lines that use them
    - lines that create a peer group or a neighbour come before its others, and are removed after them
    - a peer group comes before its members, and is removed after them
    - a new hook of filters is removed with its filters
    - of what a node may have by intent, one object is named
    - if the ends of a link differ from each other, one command is enough
    - of a fixed and a dynamic threshold, the one is set that the group should have
    """
    settings = list(settings)
    choices, settings = _of_either_end(settings)
    settings = [each for each in settings if not (each.expected == "none" and _OF_ONE_LIMIT.search(each.setting))]
    hooks = {(each.node, each.interface) for each in settings if is_filter_hook(each) and is_new(each)}
    settings = [each for each in settings if each.kind != "filter" or (each.node, each.interface) not in hooks]
    mine = sorted(
        settings,
        key=lambda each: (
            not (each.kind == "frr" and is_new(each)),
            _is_definition(each),
            _creates(each) == is_new(each),
            _creation(each) * (-1 if is_new(each) else 1),
        ),
    )
    of_object: dict[tuple[str, str], list[DifferingSetting]] = {}
    for each in mine:
        of_object.setdefault((each.node, each.object), []).append(each)
    found: dict[str, None] = {}
    lacking: set[str] = set()
    asked: set[str] = set()
    for each in mine:
        same = of_object[each.node, each.object]
        if each.intended:
            if each.node in asked:
                continue
            asked.add(each.node)
        if each.kind == "qdisc" and not is_filter_hook(each) and each.setting != "presence":
            found[_of_replaced_qdisc(each, same)] = None
            continue
        if each.setting.startswith("port ") and any(other.setting == "master" for other in same):
            continue  # an option of the bridge that the interface should not be in
        first = leading(same) if each.kind == "route" else each
        if is_unlearned(first) and first.setting != ADVERTISED:
            if first.node in lacking:
                continue
            lacking.add(first.node)
        found[remedy(first, same)] = None
    return [*choices, *found]


def _of_either_end(settings: Sequence[DifferingSetting]) -> tuple[list[str], list[DifferingSetting]]:
    """Return a choice for each setting in which the ends of a link differ from each other, and all other settings.

    The commands of both ends would exchange the values.
    """
    keys = {id(each): (generic(each.object, each.interface), each.setting) for each in settings}
    ends = {(f"{each.node}:{each.interface}", *keys[id(each)]): each for each in settings}
    choices: dict[str, None] = {}
    done: set[int] = set()
    for each in settings:
        other = ends.get((each.against, *keys[id(each)]))
        if other is None or other.against != f"{each.node}:{each.interface}":
            continue
        if id(other) not in done:
            choices[f"{EITHER}{remedy(each)}, or {remedy(other)}"] = None
        done.add(id(each))
    return list(choices), [each for each in settings if id(each) not in done]


def remedy(setting: DifferingSetting, same: Sequence[DifferingSetting] = ()) -> str:
    """Return the command that gives a setting its expected value, for the node as it is; prose if there is none.

    ``same`` are all settings of its object that differ.
    """
    words = setting.object.removeprefix(setting.kind).split()
    if setting.intended:
        return _of_intended(setting)
    if setting.expected.startswith(UNLIKE):
        return _of_unique(setting)
    if _is_secret(setting):
        return _of_secret(setting)
    if setting.kind == "route" and words:
        command = of_route(setting, words, same)
    else:
        make = _REMEDIES.get(setting.kind)
        command = make(setting, words) if make and words else ""
    if command.startswith("rocelab"):
        return command
    if command:
        return f"rocelab exec {setting.node} -- {shlex.join(command.split())}"
    return _in_words(setting, words)


def _of_unique(setting: DifferingSetting) -> str:
    """Return what to do about a value that several nodes have, in words: nothing shows which of them may keep it."""
    others = setting.expected.removeprefix(UNLIKE)
    shown = f"vtysh {setting.node} {shlex.join(['-c', 'show running-config'])}"
    command = shown if setting.kind == "frr" else f"exec {setting.node} -- ip link show"
    what = setting.object.removeprefix("frr ") if setting.kind == "frr" else f"{setting.object} {setting.setting}"
    return f"give {setting.node} or {others} a value of its own, {what}: rocelab {command}"


def _of_intended(setting: DifferingSetting) -> str:
    """Return how to see what one node may have by intent: removing it may end a real session."""
    shown = shlex.join(["-c", "show running-config"])
    what = setting.object.removeprefix("frr ")
    if setting.kind == "interface":
        removed = f"rocelab exec {setting.node} -- {shlex.join(['ip', 'link', 'del', setting.interface])}"
        return f"find out whether {setting.node} should have {what}, and remove it otherwise: {removed}"
    by_kind = {"route": "ip route show table all"}
    asking = by_kind.get(setting.kind)
    command = f"exec {setting.node} -- {asking}" if asking else f"vtysh {setting.node} {shown}"
    return f"find out whether {setting.node} should have {what}: rocelab {command}"


def _in_words(setting: DifferingSetting, words: list[str]) -> str:
    """Return what to do about a setting that no single command restores, with the command that shows it."""
    if setting.kind == "nft" and len(words) > 3 and is_new(setting):
        return _of_nft(setting, words)
    if words and setting.setting == ADVERTISED:
        return _of_unadvertised(setting, words[0])
    if words and is_unlearned(setting):
        vrf = " vrf all" if "table" in words else ""
        shown = shlex.join(["-c", f"show {'ipv6' if ':' in words[0] else 'ip'} route{vrf} {words[0]}"])
        return f"look for a filter of routes, or for who should advertise it: rocelab vtysh {setting.node} {shown}"
    if setting.kind in {"bgp session", "bfd session"} and words:
        return _of_session(setting, words)
    if _is_lost_section(setting):
        section = setting.object.removeprefix("frr ")
        shown = shlex.join(["-c", "show running-config"])
        return f"restore the section {section} with all its lines: rocelab vtysh {setting.node} {shown}"
    silent = f"resume {setting.object} of {setting.node} (kill -CONT), or restart what does not answer there"
    before = f"give {setting.object} of {setting.node} its value of before: {setting.setting} {setting.expected}"
    return silent if setting.setting == ANSWER else before


def _of_unadvertised(setting: DifferingSetting, prefix: str) -> str:
    """Return a command that advertises a network, modelled on a line of another switch; else a sentence."""
    line = setting.expected.removeprefix(ADVERTISED_BY)
    if line != setting.expected:
        return f"rocelab vtysh {setting.node} {_typed(line.split(' / '))}"
    shown = shlex.join(["-c", "show running-config"])
    return f"advertise {prefix}, by a network statement or redistribution: rocelab vtysh {setting.node} {shown}"


def _typed(lines: Iterable[str]) -> str:
    """Return lines of FRR's configuration as options of vtysh."""
    return shlex.join([word for each in ("configure terminal", *lines) for word in ("-c", each)])


def _of_rule(setting: DifferingSetting, words: list[str]) -> str:
    family = "-6 " if words[0] == "inet6" else ""
    if is_new(setting):
        return f"ip {family}rule del pref {' '.join(words[1:])}"
    action = setting.expected.removeprefix("present: action ")
    of_vrfs = words[-1] == _OF_VRFS and setting.expected == PRESENT
    known = of_vrfs or action != setting.expected
    lost = setting.setting == "presence" and setting.value.startswith("absent") and known
    lost = lost and ADDRESS not in words  # siblings have it for addresses of their own
    return f"ip {family}rule add pref {' '.join([*words[1:], *([] if of_vrfs else [action])])}" if lost else ""


def _of_frr(setting: DifferingSetting, _: list[str]) -> str:
    """Return how to add or remove a line of FRR; "" if it begins a section, whose lines are not known here."""
    *contexts, line = setting.object.removeprefix("frr ").split(" / ")
    if _is_lost_section(setting):
        return ""
    if setting.setting == "presence":
        line = _removing(line) if is_new(setting) else line
    else:
        contexts += [f"no {line}"] if line.endswith(_REMOVED_FIRST) else []
        line = f"{line} {setting.expected}"
    return f"rocelab vtysh {setting.node} {_typed([*contexts, line])}"


def _removing(line: str) -> str:
    """Return the line that removes another one, or gives it its default if FRR has no command to remove it."""
    for start, default in _WITHOUT_NO.items():
        if line.startswith(f"{start} "):
            return f"{start} {default}"
    if line.startswith("maximum-paths "):  # OSPF takes no number after it
        return f"no {line.rpartition(' ')[0]}"
    return line.removeprefix("no ") if line.startswith("no ") else f"no {line}"


def _is_secret(setting: DifferingSetting) -> bool:
    """Return whether a line of FRR has a password or a key, which was replaced when it was read."""
    return setting.kind == "frr" and has_hidden_secret(f"{setting.object} {setting.value} {setting.expected}")


def _of_secret(setting: DifferingSetting) -> str:
    """Return what to do about a password or a key, in words: no recording has it. FRR removes most without it."""
    *contexts, last = setting.object.removeprefix("frr ").split(" / ")
    if is_new(setting) and (known := _REMOVED_WITHOUT_SECRET.search(last)):
        return f"rocelab vtysh {setting.node} {_typed([*contexts, f'no {known[1]}'])}"
    line, where = setting.object.removeprefix("frr "), f"rocelab vtysh {setting.node}"
    return f"remove {line}: {where}" if is_new(setting) else f"enter the secret of {line} again: {where}"


def _is_definition(setting: DifferingSetting) -> bool:
    return setting.kind == "frr" and is_definition(setting.object)


def _creates(setting: DifferingSetting) -> bool:
    """Return whether a line of FRR creates a neighbour, so that without it no other line can name that."""
    return setting.kind == "frr" and bool(_CREATING.search(setting.object))


def _creation(setting: DifferingSetting) -> int:
    """Return the position of a line among those that create neighbours: a peer group comes before its members.

    FRR removes the members with a peer group, or with its AS number, and rejects a line of one that it does not have.
    """
    found = _CREATING.search(setting.object) if setting.kind == "frr" else None
    return _CREATIONS.index(found[1].split(" ")[0]) if found else 0


def _is_lost_section(setting: DifferingSetting) -> bool:
    """Return whether a line of FRR's configuration is missing that begins a section of further lines."""
    line = setting.object.removeprefix("frr ").rpartition(" / ")[2]
    missing = setting.setting == "presence" and not is_new(setting)
    return setting.kind == "frr" and missing and line.startswith(_SECTIONS)


def _of_session(setting: DifferingSetting, words: list[str]) -> str:
    """Return what shows why a session is as it is, in words: its configuration is at either end."""
    vrf = f" vrf {words[1]}" if len(words) > 1 else ""
    shown = "show bfd peers" if setting.kind == "bfd session" else f"show bgp{vrf} neighbors {words[0]}"
    if setting.kind == "bfd session" and setting.value == BFD_SHUTDOWN:
        why = "find the line that shuts the session or its profile, and remove it"
        shown = "show running-config"
    elif setting.kind == "bfd session":
        why = "see the reason, and use BFD at both ends"
    elif setting.setting.endswith("prefixes"):
        why = "look for a route map or a prefix list, here or at the other end"
    elif setting.value == BGP_SHUTDOWN:
        why = "find the line that shuts the session, its peer group or all of BGP, and remove it"
        shown = "show running-config"
    elif setting.setting == "state":
        why = "see the reason of the last reset, and correct the session here or at the other end"
    else:
        why = f"give both ends the {setting.setting} of other sessions, {setting.expected}"
    return f"{why}: rocelab vtysh {setting.node} {shlex.join(['-c', shown])}"


def _of_neighbour(setting: DifferingSetting, words: list[str]) -> str:
    """Return how to delete an entry, or to restore that of FRR's gateway, whose ARP requests have no answer."""
    *entry, interface = words
    mac = _MAC.search(setting.expected)
    if entry == [MAPPED] and mac:
        return f"ip neigh replace {MAPPED} lladdr {mac[0]} dev {interface} nud permanent"
    return f"ip neigh del {' '.join(entry)} dev {interface}" if entry else ""


def _of_sysctl(setting: DifferingSetting, words: list[str]) -> str:
    """Return how to set a sysctl. Slashes separate the parts of a name, because ``eth1.10`` is one part."""
    single = setting.setting == "value" and len(setting.expected.split()) == 1
    name = words[0]
    if "." in setting.interface:
        before, _, after = name.partition(f".{setting.interface}.")
        name = "/".join([before.replace(".", "/"), setting.interface, after])
    return f"sysctl -w {name}={setting.expected}" if single else ""


def _of_nft(setting: DifferingSetting, words: list[str]) -> str:
    """Return how to delete a rule: its table may have others, like those of Docker's DNS.

    A chain is deleted by hand, after its rules. So is a legacy rule: the numbers of others change with it.
    """
    base = words[3] == "hook"
    if words[0].endswith("-legacy"):
        program, table, chain = words[:3]
        if base:  # all policies are to accept at first
            return f"rocelab exec {setting.node} -- {shlex.join([program, '-t', table, '-P', chain, 'ACCEPT'])}"
        shown = shlex.join([program, "-t", table, "-L", chain, "-n", "-v", "--line-numbers"])
        return f"delete the rule by its number: rocelab exec {setting.node} -- {shown}"
    if setting.handle and not base:
        words = ["nft", "delete", "rule", *words[:3], "handle", str(setting.handle)]
        return f"rocelab exec {setting.node} -- {shlex.join(words)}"
    action = "delete the chain if it is new, or restore its policy" if base else "delete the rule by its handle"
    return f"{action}: rocelab exec {setting.node} -- {shlex.join(['nft', '-a', 'list', 'chain', *words[:3]])}"


def _of_filter(setting: DifferingSetting, words: list[str]) -> str:
    """Return how to delete a filter by its handle: others may have the same priority."""
    if is_new(setting) and words[2:3] == ["xfrm"]:
        return f"ip xfrm policy delete index {words[3]} dir {words[0]}"
    if not is_new(setting) or len(words) < 5:
        return ""
    interface, hook, priority, kind, handle = words[:5]
    return f"tc filter del dev {interface} {hook} pref {priority} handle {handle} {kind}"


def _of_replaced_qdisc(setting: DifferingSetting, same: Sequence[DifferingSetting]) -> str:
    """Return all options that a qdisc should have, in words: tc(8) shows some of them in other units."""
    words = setting.object.removeprefix("qdisc ").split()
    wanted = [each for each in same if each.expected != "absent"]
    options = ", ".join(f"{each.setting} {each.expected}" for each in sorted(wanted, key=_is_no_kind))
    shown = f"rocelab exec {setting.node} -- tc qdisc show dev {shlex.quote(words[0])}" if words else ""
    return f"give {setting.object} of {setting.node} its values of before, {options}: {shown}"


def _is_no_kind(setting: DifferingSetting) -> bool:
    return setting.setting != "kind"


def _of_qdisc(setting: DifferingSetting, words: list[str]) -> str:
    return f"tc qdisc del dev {words[0]} parent {words[1]}" if is_filter_hook(setting) and is_new(setting) else ""


def _of_address(setting: DifferingSetting, words: list[str]) -> str:
    if setting.setting == "presence" and setting.value.startswith("absent") and len(words) > 1:
        return f"ip address add {words[0]} dev {words[1]}"
    if setting.setting == PREFIX_LENGTH and len(words) > 1:
        wanted = f"{words[0].partition('/')[0]}/{setting.expected}"
        return _of_prefix_length(setting.node, words, wanted)
    owned = setting.setting == "owner" and (words[1:] == ["lo"] or setting.expected not in _NO_OWNER)
    extra = is_new(setting) or owned
    return f"ip address del {words[0]} dev {words[1]}" if extra and len(words) > 1 else ""


def _of_prefix_length(node: str, words: Sequence[str], wanted: str) -> str:
    """Return how to replace an address. The old one goes first: its GID goes with it, and so do its routes."""
    dev = ["dev", words[1]]
    change = [["ip", "address", "del", words[0], *dev], ["ip", "address", "add", wanted, *dev]]
    if ":" in wanted:
        return f"rocelab exec {node} -- sh -c {shlex.quote(' && '.join(map(shlex.join, change)))}"
    shown = shlex.join(["ip", "route", "show", "default", *dev])
    again = f'[ -z "$r" ] || ip route replace $r {shlex.join(dev)}'
    typed = " && ".join([f"r=$({shown})", *map(shlex.join, change), again])
    return f"rocelab exec {node} -- sh -c {shlex.quote(typed)}"


def _of_vlan(setting: DifferingSetting, words: list[str]) -> str:
    if len(words) < 2:
        return ""
    if is_new(setting):
        return f"bridge vlan del vid {words[0]} dev {words[1]}"
    flags = [word for word in setting.expected.lower().replace(",", " ").split() if word in {"pvid", "untagged"}]
    return " ".join([f"bridge vlan add vid {words[0]} dev {words[1]}", *flags])


def _of_fdb(setting: DifferingSetting, words: list[str]) -> str:
    if not is_new(setting) or len(words) < 2:
        return ""
    vlan = f" vlan {words[2]}" if len(words) > 2 and words[2].isdigit() else ""
    remote = words[-1] if len(words) > 2 and not words[-1].isdigit() else ""
    owner = f"dst {remote} self" if remote else "master"  # tunnels have entries of their own
    return f"bridge fdb del {words[0]} dev {words[1]} {owner}{vlan}"


def _of_interface(setting: DifferingSetting, words: list[str]) -> str:
    name, field, value = words[0], setting.setting, setting.expected
    if is_new(setting):
        return f"ip link del {name}"
    if field == _IPV6_MTU:
        return _of_ipv6_mtu(setting, name)
    if field.startswith("port ") and value != ABSENT:
        option = field.removeprefix("port ")
        return f"bridge link set dev {name} {option} {_BRIDGED.get(value, value)}"
    change = _of_link(setting)
    return f"ip link set {name} {change}" if change else ""


def _of_link(setting: DifferingSetting) -> str:
    """Return an option of an interface with its expected value, as ``ip link set`` takes it; "" if it has none."""
    field, value = setting.setting, setting.expected
    if field in _NUMBERS:
        option, usual = _NUMBERS[field]
        return f"{option} {usual if value == ABSENT else value}"
    simple = {
        "up": {"yes": "up", "no": "down"}.get(value, "up"),
        "master": "nomaster" if value == "none" else f"master {value}",
        "learning": f"type vxlan {'learning' if value == 'yes' else 'nolearning'}",
        **{name: f"{option} {'off' if value == 'yes' else 'on'}" for name, option in _OFF.items()},
        **{name: f"type vxlan {name} {words.get(value, value)}" for name, words in _OF_TUNNELS.items()},
        **{name: f"type bridge {name} {_AGEING if value == ABSENT else value}" for name in _OF_BRIDGES},
    }
    if value == ABSENT:
        simple[XDP] = f"{'xdpgeneric' if _XDP_GENERIC.search(setting.value) else 'xdp'} off"
    return simple.get(field, "")


def _of_ipv6_mtu(setting: DifferingSetting, name: str) -> str:
    if setting.expected.isdigit():
        return f"sysctl -w net/ipv6/conf/{name}/mtu={setting.expected}"
    key = shlex.quote(f"net/ipv6/conf/{name}/mtu")  # a recording can have any name, also one that a shell expands
    typed = f"sysctl -w {key}=$(cat {shlex.quote(f'/sys/class/net/{name}/mtu')})"
    return f"rocelab exec {setting.node} -- sh -c {shlex.quote(typed)}"


def _of_port(setting: DifferingSetting, words: list[str]) -> str:
    name = setting.setting
    for pattern, form in _NAMES_OF_SETTINGS:
        if pattern.search(name):
            value = _said(name, setting.expected)
            value = shlex.quote(f"{pattern.sub(form, name)}={value}")
            return f"rocelab qos set {shlex.quote(f'{setting.node}:{words[0]}')} {value}"
    return ""


def _said(name: str, value: str) -> str:
    """Return a value as ``qos set`` takes it: priorities are a list, and ``none`` is the strict scheduler."""
    if name == "pfc.priorities" and value.isdigit():
        return ",".join(str(number) for number in range(8) if int(value) >> number & 1) or "none"
    if name.endswith(".weight") and value == "none":
        return "strict"
    return {"yes": "true", "no": "false"}.get(value, value)


_MAC: Final = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b")
_OF_VRFS: Final = "l3mdev"
"""The selector of the rule that looks up the tables of VRFs. It has no action (ip-rule(8))."""
_NO_OWNER: Final = frozenset({"one node", "absent"})
_SECTIONS: Final = ("router ", "address-family ", "route-map ", "interface ", "vrf ", "bfd", "peer ")
"""Words that begin a section of FRR's configuration."""
_CREATING: Final = re.compile(r" neighbor \S+ (peer-group$|interface( |$)|remote-as( |$))")
"""In lines that create a peer group or a neighbour."""
_CREATIONS: Final = ("peer-group", "remote-as", "interface")
_XDP_GENERIC: Final = re.compile(r'"mode": 2\b')
"""XDP_ATTACHED_SKB of <linux/if_link.h>: ip-link(8) removes the program of a driver otherwise."""
_OFF: Final = {"NOARP": "arp", "NOMULTICAST": "multicast"}
"""Options of interfaces by the flags that turn them off (ip-link(8))."""
_IPV6_MTU: Final = "ipv6 mtu"
"""The MTU of a port for IPv6, which an audit leaves out if it is that of the port."""
_OF_TUNNELS: Final[Mapping[str, Mapping[str, str]]] = {
    "ttl": {"0": "auto"}, "tos": {"0x1": "inherit", "1": "inherit"}, "df": {},
}  # fmt: skip
"""Options of a VXLAN device that can be changed, with the words of ip-link(8) for values that have one."""
_OF_BRIDGES: Final = frozenset({
    "vlan_filtering", "vlan_default_pvid", "fdb_max_learned", "priority", "ageing_time", "stp_state", "forward_delay",
    "hello_time", "max_age",
})  # fmt: skip
"""Options of a bridge (ip-link(8))."""
_AGEING: Final = 30_000
"""Hundredths of a second (IEEE 802.1D-2004 table 7-5): no other option of a bridge is read with some values only."""
_NUMBERS: Final = {
    "mtu": ("mtu", ""), "queue length": ("txqueuelen", ""), "gso_max_size": ("gso_max_size", "65536"),
    "gso_max_segs": ("gso_max_segs", "65535"), "gro_max_size": ("gro_max_size", "65536"),
}  # fmt: skip
"""Settings of an interface with a number, as ip-link(8) names them, with the defaults that an audit leaves out."""
_WITHOUT_NO: Final = {"detect-multiplier": "3", "receive-interval": "300", "transmit-interval": "300"}
"""Lines of BFD that FRR 8.4 cannot remove, with their defaults."""
_REMOVED_WITHOUT_SECRET: Final = re.compile(
    r"^(neighbor \S+ password|isis password|(?:area|domain)-password|ip ospf authentication-key"
    r"|ip ospf message-digest-key \d+)(?: md5| clear)? <secret"
)
"""Lines with a secret that FRR removes without it, up to the first word that it does not need."""
_REMOVED_FIRST: Final = "ip ospf area"
"""The line whose value FRR only changes after it was removed."""
_BRIDGED: Final = {"yes": "on", "no": "off", "True": "on", "False": "off"}
_OF_ONE_LIMIT: Final = re.compile(r"^groups\.\d+\.(alpha|xoff)$")
"""A group has one of both: ``qos set`` of the one removes the other."""
_NAMES_OF_SETTINGS: Final = (
    (re.compile(r"^dscp_to_priority\.(\d+)$"), r"map.dscp.\1"),
    (re.compile(r"^trust$"), "map.trust"),
    (re.compile(r"^queues\.(\d+)\.ecn\.(\w+)$"), r"ecn.\1.\2"),
    (re.compile(r"^queues\.(\d+)\.limit$"), r"buffer.queues.\1"),
    (re.compile(r"^queues\.(\d+)\.weight$"), r"scheduler.\1"),
    (re.compile(r"^groups\.(\d+)\.(\w+)$"), r"buffer.groups.\1.\2"),
    (re.compile(r"^(pfc\..*)$"), r"\1"),
)
"""Names of a port's settings in full, and those that ``rocelab qos set`` has for them."""
_REMEDIES: Final[dict[str, Callable[[DifferingSetting, list[str]], str]]] = {
    "rule": _of_rule, "frr": _of_frr, "neighbour": _of_neighbour, "sysctl": _of_sysctl, "filter": _of_filter,
    "qdisc": _of_qdisc,
    "address": _of_address, "vlan": _of_vlan, "fdb": _of_fdb, "interface": _of_interface, "port": _of_port,
}  # fmt: skip
