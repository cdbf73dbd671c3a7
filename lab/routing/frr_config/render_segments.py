"""Ethernet segments (RFC 7432 section 8): FRR's configuration, and the filters that the kernel's bridge lacks.

FRR elects designated forwarders, and passes them and the leaves of each segment to its dataplane. The kernel
implements neither (FRR issue 15400). So each bond has tc(8) filters, all of them installed from the start::

    uplink, ingress   a VXLAN packet gets a priority by its leaf's number, or by OTHERS; decapsulation keeps it
    L3VNI, ingress    reset the priority: routed packets are not flooded
    bond, egress      sent by another leaf -> chain FLOODED, or by a leaf of the same segment -> chain SPLIT
                      SPLIT   drops flooded packets: the other leaf delivered them (RFC 8365 section 8.3.1)
                      FLOODED passes flooded packets at the designated forwarder, and drops them elsewhere

The filters use the priority (socket(7)), which rocelab's qdiscs ignore, because lossless ports use the mark.

Flooded packets are broadcast and multicast. Unknown unicast arrives by every leaf: Debian's kernel cannot match it
(l2_miss of tc-flower(8) needs NET_TC_SKB_EXT).

zebra runs a script after its decisions (hook on_rib_process_dplane_results). The script:

- updates the filters
- redirects traffic of a bond without carrier to the other leaves (backup_nhid of bridge(8))
- points remote MACs to their segment's next hops, because Linux 7 rejects zebra's own entries ("A nexthop fdb cannot
  be dynamic")
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
"""The name of the script in zebra."""
REACH: Final = "reach"
"""The shell script that points remote MACs to the next hops of their segments."""
TOOLS: Final = "/etc/frr/scripts"
"""The directory of the script, with copies of tc(8) and bridge(8) that have the capabilities user ``frr`` lacks."""
OTHERS: Final = 0xFFFF
"""The number of leaves that share no segment with this one; other numbers are smaller."""
_SENDERS: Final = 0x10000
"""The first priority that encodes a sender; packets of the leaf itself have priorities below 16."""
FLOODED, SPLIT = 2, 1
"""The tc chains."""
_FIRST, _SECOND = 201, 202
"""Filter preferences: impairments use those up to 99, and so see packets first."""
_MANY: Final = "dst_mac 01:00:00:00:00:00/01:00:00:00:00:00"
_LUA_BOND, _LUA_SENDER = (f'", {name}, "' for name in ("bond", "sender"))
"""Lua fragments: end of a string, a variable, and the start of the next string."""
_LUA: Final = """\
-- For each bond: the priorities of packets from its other leaves, and the tunnel of its network.
local senders, tunnels = {{
{0}}}, {{
{7}}}

-- The lowest flag is set if another leaf forwards; the count is the number of leaves that share the segment.
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

-- zebra has installed a remote MAC with the next hops of a segment and a state that expires (NUD_REACHABLE), which
-- the kernel rejects. Scripts get only the first octet of a MAC, so a shell script queries zebra afterwards.
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
    """Yield zebra's own lines at leaf ``name``: the script, and no startup delay for segments."""
    if overlay is not None and overlay.bonds and name in overlay.leaves:
        yield f"zebra on-rib-process script {SCRIPT}"
        yield "evpn mh startup-delay 0"


def segment_lines(leaf: LeafOverlay | None) -> Iterator[str]:
    """Yield the Ethernet segment of each bond, with an identifier of type 3."""
    for bond in leaf.bonds if leaf else ():
        yield f"interface {bond.name}"
        yield f" evpn mh es-df-pref {bond.preference}"
        yield f" evpn mh es-id {bond.number}"
        yield f" evpn mh es-sys-mac {SEGMENT_MAC}"
        yield "exit"


def filters(leaf: LeafOverlay, vteps: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield lines for ``tc -batch`` at a leaf with its devices; flooded packets are dropped until zebra decides.

    ``vteps`` and ``numbers`` are those of the other leaves, by name.
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
    """Return the action that stores a sender's number. tc reads hexadecimal here, and decimal in ``_chosen``."""
    return f"skbedit priority {_SENDERS + number:x} pass"


def _chosen(bond: str, sender: int | str) -> str:
    match = f"basic match 'meta(priority eq {sender})'"
    return f"dev {bond} egress protocol all pref {_FIRST} handle {sender} {match} action goto chain"


def _rule(bond: str, chain: int) -> str:
    return f"dev {bond} egress chain {chain} protocol all pref {_FIRST} handle 1 flower {_MANY} action"


def script(overlay: OverlayPlan | None, name: str) -> str:
    """Return the Lua script of leaf ``name``; "" for other nodes, and without bonds."""
    leaf = overlay.leaves.get(name) if overlay is not None and overlay.bonds else None
    if leaf is None or overlay is None:
        return ""
    tunnels = "".join(f'  {bond.name} = "{_tunnel(leaf, bond.name)}",\n' for bond in leaf.bonds)
    senders = {bond.name: [_SENDERS + overlay.numbers[other] for other in bond.others] for bond in leaf.bonds}
    known = "".join(f"  {bond} = {{{', '.join(map(str, numbers))}}},\n" for bond, numbers in senders.items())
    rules = (_chosen(_LUA_BOND, _LUA_SENDER), _rule(_LUA_BOND, FLOODED))
    return _LUA.format(known, TOOLS, SPLIT, FLOODED, *(f'"filter replace {rule} "' for rule in rules), REACH, tunnels)


def _tunnel(leaf: LeafOverlay, bond: str) -> str:
    """Return the tunnel of a bond's network, or of its first one: a bridge port has a single backup."""
    port = next(port for port in leaf.ports if port.interface == bond)
    vlan = port.untagged or port.tagged[0]
    return next(tunnel.name for tunnel in leaf.tunnels if tunnel.vlan == vlan)


def reach_script(folder: str) -> str:
    """Return a sh(1) script that points MACs of segments to all of their leaves; ``folder`` has zebra's socket.

    Of several instances that start together, the one with the lock does all the work; the others find none left.
    """
    return _REACH.format(folder, TOOLS)
