"""Ethernet segments (RFC 7432 section 8): FRR's part, and what the kernel's bridge has not got of them.

FRR elects designated forwarders, and tells its dataplane of them and of the leaves that share a segment. The kernel
takes neither (FRR's issue 15400). So each bond has filters of tc(8), all of which are there from the start::

    uplink, ingress   a VXLAN packet gets a priority by its leaf's number, or by OTHERS; decapsulation keeps it
    L3VNI, ingress    none: what is routed is not flooded
    bond, egress      of another -> chain FLOODED, or of a leaf of the same segment SPLIT
                      SPLIT   drops what is flooded: it was given to the host over there (RFC 8365 section 8.3.1)
                      FLOODED drops or passes what is flooded, as the leaf is not the designated forwarder or is

It is a priority (socket(7)), which no qdisc of ours looks at, because the mark is a lossless port's own.

What is flooded is broadcast and multicast. Packets that the bridge has no entry for come by each leaf: Debian's
kernel does not say which these are (l2_miss of tc-flower(8) needs NET_TC_SKB_EXT).

zebra runs a script when it decides (its hook on_rib_process_dplane_results), which has the filters do as it says; has
the bridge send what is for a bond without carrier to the other leaves (backup_nhid of bridge(8)); and gives remote
MACs of segments their next hops, since Linux 7 refuses what zebra writes ("A nexthop fdb cannot be dynamic").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.overlay.intent import SEGMENT_MAC
from lab.wire.udp_ports import VXLAN_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.overlay.node_plan import LeafOverlay
    from lab.model.overlay.plan import OverlayPlan

SCRIPT: Final = "segments"
"""What zebra knows the script by."""
REACH: Final = "reach"
"""What has remote MACs reached by the next hops of their segments."""
TOOLS: Final = "/etc/frr/scripts"
"""Where the script is, with a tc(8) and a bridge(8) that may change things: who zebra runs as may not."""
OTHERS: Final = 0xFFFF
"""The number of leaves that share no segment; others have their own, which is smaller."""
_SENDERS: Final = 0x10000
"""Priorities begin here that say who sent: those of a leaf's own packets are below 16."""
FLOODED, SPLIT = 2, 1
"""Chains."""
_FIRST, _SECOND = 201, 202
"""Priorities: impairments have those up to 99, and see packets before."""
_MANY: Final = "dst_mac 01:00:00:00:00:00/01:00:00:00:00:00"
_LUA_BOND, _LUA_SENDER = (f'", {name}, "' for name in ("bond", "sender"))
"""Ends of a text in Lua, a variable, and the text again."""
_LUA: Final = """\
-- Of each bond: by which priorities what its other leaves have sent is known, and the tunnel of its network.
local senders, tunnels = {{
{0}}}, {{
{7}}}

-- The lowest flag is set where another leaf forwards; the count is of the leaves that share the segment.
local function forward(bond, port)
  local chain = port.sph_filter_cnt > 0 and {2} or {3}
  local flooded = port.flags % 2 == 1 and "drop" or "pass"
  local tc = io.popen("{1}/tc -batch -", "w")
  for _, sender in ipairs(senders[bond]) do
    tc:write({4}, chain, "\\n")
  end
  tc:write({5}, flooded, "\\n")
  tc:close()
  local there = table.concat({{bond, " backup_port ", tunnels[bond], " backup_nhid ", port.backup_nhg_id}})
  os.execute("{1}/bridge link set dev " .. there)
end

-- zebra has given a remote MAC the next hops of a segment, as one that may expire (NUD_REACHABLE): such the kernel
-- refuses. Of a MAC scripts are told the first octet alone, so zebra is asked, when it is done here.
local function reach()
  os.execute("{1}/{6} &")
end

function on_rib_process_dplane_results(ctx)
  if ctx.br_port and senders[ctx.zd_ifname] then
    forward(ctx.zd_ifname, ctx.br_port)
  elseif ctx.macinfo and ctx.macinfo.nhg_id > 0 and ctx.macinfo.update_flags % 2 == 1 then
    reach()
  end
  return {{}}
end
"""
_REACH: Final = """\
#!/bin/sh
: > {0}/segments.asked
exec 9> {0}/segments.lock
flock 9
rm {0}/segments.asked 2> /dev/null || exit 0
vtysh -d zebra --vty_socket {0} -c 'show evpn es detail' -c 'show evpn mac vni all' | awk '
  /^ESI:/ {{ segment = $2 }}
  /^ Nexthop group:/ {{ group[segment] = $NF }}
  /^VNI/ {{ vni = $2 }}
  $2 == "remote" && ($3 in group) {{
    print "fdb replace", $1, "dev vni" vni, "self nhid", group[$3], "extern_learn static"
  }}
' | {1}/bridge -force -batch -
"""


def zebra_lines(overlay: OverlayPlan | None, name: str) -> Iterator[str]:
    """What zebra of leaf ``name`` has for itself: the script, and segments told as soon as they are there."""
    if overlay is not None and overlay.bonds and name in overlay.leaves:
        yield f"zebra on-rib-process script {SCRIPT}"
        yield "evpn mh startup-delay 0"


def segment_lines(leaf: LeafOverlay | None) -> Iterator[str]:
    """The segment of each bond; its identifier is of type 3."""
    for bond in leaf.bonds if leaf else ():
        yield f"interface {bond.name}"
        yield f" evpn mh es-df-pref {bond.preference}"
        yield f" evpn mh es-id {bond.number}"
        yield f" evpn mh es-sys-mac {SEGMENT_MAC}"
        yield "exit"


def filters(leaf: LeafOverlay, vteps: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[str]:
    """Lines for ``tc -batch`` at a leaf whose devices are there; what is flooded gets to nobody before zebra says so.

    ``vteps`` and ``numbers`` are of its siblings, by their names.
    """
    if not leaf.bonds:
        return
    others = sorted({other for bond in leaf.bonds for other in bond.others})
    for uplink in leaf.uplinks:
        yield f"qdisc replace dev {uplink} clsact"
        arrives = f"filter add dev {uplink} ingress protocol ip pref"
        tunnel = f"flower ip_proto udp dst_port {VXLAN_PORT}"
        for other in others:
            yield f"{arrives} {_FIRST} {tunnel} src_ip {vteps[other]} action {_told(numbers[other])}"
        yield f"{arrives} {_SECOND} {tunnel} action {_told(OTHERS)}"
    for vrf in (each for each in leaf.vrfs if each.l3vni):
        yield f"qdisc add dev vni{vrf.l3vni} clsact"
        routed = f"dev vni{vrf.l3vni} ingress protocol all pref {_FIRST} matchall"
        yield f"filter add {routed} action skbedit priority 0 pass"
    for bond in leaf.bonds:
        yield f"qdisc add dev {bond.name} clsact"
        for number in (*sorted(numbers[other] for other in bond.others), OTHERS):
            yield f"filter add {_chosen(bond.name, _SENDERS + number)} {FLOODED}"
        for chain in (SPLIT, FLOODED):
            yield f"filter add {_rule(bond.name, chain)} drop"


def _told(number: int) -> str:
    """That the sender has this number: tc reads hexadecimal here, and decimal below."""
    return f"skbedit priority {_SENDERS + number:x} pass"


def _chosen(bond: str, sender: int | str) -> str:
    match = f"basic match 'meta(priority eq {sender})'"
    return f"dev {bond} egress protocol all pref {_FIRST} handle {sender} {match} action goto chain"


def _rule(bond: str, chain: int) -> str:
    return f"dev {bond} egress chain {chain} protocol all pref {_FIRST} handle 1 flower {_MANY} action"


def script(overlay: OverlayPlan | None, name: str) -> str:
    """The script of leaf ``name`` in Lua; "" for a node without, and where the overlay has no bonds."""
    leaf = overlay.leaves.get(name) if overlay is not None and overlay.bonds else None
    if leaf is None or overlay is None:
        return ""
    tunnels = "".join(f'  {bond.name} = "{_tunnel(leaf, bond.name)}",\n' for bond in leaf.bonds)
    senders = {bond.name: [_SENDERS + overlay.numbers[other] for other in bond.others] for bond in leaf.bonds}
    known = "".join(f"  {bond} = {{{', '.join(map(str, numbers))}}},\n" for bond, numbers in senders.items())
    rules = (_chosen(_LUA_BOND, _LUA_SENDER), _rule(_LUA_BOND, FLOODED))
    return _LUA.format(known, TOOLS, SPLIT, FLOODED, *(f'"filter replace {rule} "' for rule in rules), REACH, tunnels)


def _tunnel(leaf: LeafOverlay, bond: str) -> str:
    """The tunnel of a bond's network, or of its first where it has several: a port of a bridge has one backup."""
    port = next(port for port in leaf.ports if port.interface == bond)
    vlan = port.untagged or port.tagged[0]
    return next(tunnel.name for tunnel in leaf.tunnels if tunnel.vlan == vlan)


def reach_script(folder: str) -> str:
    """What has MACs of segments reached by all of its leaves, for sh(1); ``folder`` has zebra's socket.

    Of several that are started together one does it: who has the lock finds nothing left to do, or does all.
    """
    return _REACH.format(folder, TOOLS)
