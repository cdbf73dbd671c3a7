"""Settings that differ, beside the causes of a recording: those at the place of a cause come first."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.audit import snapshot
from lab.audit.audited import NodeAudit
from lab.audit.difference import Difference
from lab.audit.objects.kernel_objects import AddressAudit, InterfaceAudit, NftRuleAudit, RouteAudit, SysctlAudit
from lab.audit.objects.routing_objects import BfdSessionAudit, FrrLineAudit
from lab.diagnose import differing
from lab.diagnose.run import diagnose_run
from lab.diagnose.symptom import Evidence
from lab.diagnose.symptoms.crossed_cables import CrossedCable
from lab.errors import InvalidInput
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.audit.made_fabric import healthy
from tests.unit.diagnose.made_windows import astray
from tests.unit.diagnose.recorded import begun, during

if TYPE_CHECKING:
    from pathlib import Path

PLANNED = (
    Difference("h1", "interface", "interface eth1", "mtu", "1500", "9000", "plan", "eth1"),
    Difference("spine1", "route", "route 10.0.0.8/31", "presence", "present", "absent", "plan"),
)


def recorded(path: Path, drift: tuple[Difference, ...] | None) -> Recording:
    """A routing loop at spine1, and rp_filter at one of four hosts."""
    made = begun(path)
    state = files.read_json(made.folder.state("before"))
    assert state is not None
    for switch, known in astray(spine1={"10.0.0.8/31": ("swp1",)}).items():
        state[switch]["routes"] = [
            {"dst": prefix, "protocol": "bgp", "metric": 20, "nexthops": [{"dev": hop} for hop in hops]}
            for prefix, hops in known.items()
        ]
    state["h5"] = {"routes": [
        {"protocol": "kernel", "scope": "link", "prefsrc": "10.0.0.9", "dst": "10.0.0.8/31", "dev": "eth1"}
    ]}  # fmt: skip
    files.write_json(made.folder.state("before"), state)
    nodes = {"spine1": snapshot.dump_node(NodeAudit("spine1", "spine")), "gone": {"name": "gone", "role": "leaf"}} | {
        f"h{number}": snapshot.dump_node(
            NodeAudit(f"h{number}", "host", sysctls=(SysctlAudit("net.ipv4.conf.all.rp_filter", value),))
        )
        for number, value in ((1, "1"), (2, "0"), (3, "0"), (4, "0"))
    }
    differences = None if drift is None else [asdict(each) for each in drift]
    files.append_line(made.folder.audit, {"ns": made.ns, "fabric": "f", "nodes": nodes, "drift": differences})
    during(made, "observe", lambda _: None)
    return Recording.open(made.finished())


@pytest.mark.parametrize(
    "node",
    [
        NodeAudit("leaf1", "leaf", routes=(RouteAudit("10.0.0.0/99", "main", "", "blackhole", "boot", ()),)),
        NodeAudit("h1", "host", addresses=(AddressAudit("eth1", "nowhere", "global"),)),
    ],
    ids=["a prefix", "an address"],
)
def test_a_recorded_setting_that_is_damaged_is_refused(tmp_path: Path, node: NodeAudit) -> None:
    recording = recorded(tmp_path / "run", None)
    (line,) = files.read_lines(recording.folder.audit)
    line["nodes"][node.name] = snapshot.dump_node(node)
    recording.folder.audit.unlink()
    files.append_line(recording.folder.audit, line)
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(recording, "observe")


@pytest.mark.parametrize(
    ("part", "damaged"),
    [
        ("nodes", {"leaf1": {"role": "leaf", "frr": [{"line": 5}]}}),
        ("nodes", {"leaf1": {"role": "leaf", "addresses": [{"interface": "lo", "address": 5, "scope": "global"}]}}),
        (
            "nodes",
            {
                "leaf1": {
                    "role": "leaf",
                    "ports": [{"interface": "swp1", "settings_in_full": {"x": []}, "in_kernel": True}],
                }
            },
        ),
        ("drift", [asdict(replace(PLANNED[1], object=5))]),  # type: ignore[arg-type]
        ("drift", [asdict(replace(PLANNED[1], expected=["absent"]))]),  # type: ignore[arg-type]
    ],
    ids=[
        "a number as a line",
        "a number as an address",
        "a list as a setting",
        "a number as a name",
        "a list as a value",
    ],
)
def test_a_recorded_value_of_another_type_is_refused(tmp_path: Path, part: str, damaged: Any) -> None:
    recording = recorded(tmp_path / "run", ())
    (line,) = files.read_lines(recording.folder.audit)
    recording.folder.audit.unlink()
    files.append_line(recording.folder.audit, {**line, part: damaged})
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(recording, "observe")


def test_a_recorded_node_has_the_name_of_its_entry(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run", ())
    (line,) = files.read_lines(recording.folder.audit)
    recording.folder.audit.unlink()
    files.append_line(recording.folder.audit, {**line, "nodes": {"leaf1": {"name": "nowhere", "role": "leaf"}}})
    assert diagnose_run(recording, "observe").differing == ()


def test_those_at_the_place_of_a_cause_come_first(tmp_path: Path) -> None:
    found = diagnose_run(recorded(tmp_path / "run", PLANNED), "observe")
    assert [each.cause for each in found.causes] == ["routing-loop"]
    assert [(each.node, each.setting, each.against, each.touches) for each in found.differing] == [
        ("spine1", "presence", "plan", ("routing-loop",)),
        ("h1", "mtu", "plan", ()),
        ("h1", "value", "siblings", ()),
    ]


def test_a_bfd_session_that_is_missing_is_listed_once(tmp_path: Path) -> None:
    """The plan has the address of its peer. The other end, which waits for it, is not known to the plan."""
    gone = "absent: only timers of routing notice a dead link"
    waiting = BfdSessionAudit("swp1", "fe80::1", "down", 1000, 1000, 3, 0.0, "neighbor signaled session down")
    planned = Difference(
        "leaf1", "bfd session", "bfd session swp1 fe80::2", "presence", gone, "present", "plan", "swp1"
    )
    nodes = {"leaf1": NodeAudit("leaf1", "leaf"), "spine1": NodeAudit("spine1", "spine", bfd=(waiting,))}

    def listed(path: Path, drift: list[Difference]) -> list[tuple[str, str, str]]:
        made = begun(path)
        described = {name: snapshot.dump_node(node) for name, node in nodes.items()}
        files.append_line(
            made.folder.audit,
            {"ns": made.ns, "fabric": "f", "nodes": described, "drift": [asdict(each) for each in drift]},
        )
        during(made, "observe", lambda _: None)
        found = diagnose_run(Recording.open(made.finished()), "observe")
        return [(each.node, each.against, each.value) for each in found.differing]

    assert listed(tmp_path / "planned", [planned]) == [("leaf1", "plan", gone)]
    assert listed(tmp_path / "other", [replace(planned, interface="swp2")])[1:] == [("leaf1", "rule", gone)]


def test_the_plan_can_be_left_out(tmp_path: Path) -> None:
    without = diagnose_run(recorded(tmp_path / "run", PLANNED), "observe", plan=False)
    assert [(each.node, each.against) for each in without.differing] == [("h1", "siblings")]
    adopted = diagnose_run(recorded(tmp_path / "other", None), "observe")
    assert adopted.differing == without.differing


def test_the_other_end_of_a_link_that_differs_from_the_plan_is_not_listed(tmp_path: Path) -> None:
    """Without a plan, either end may be wrong."""
    port = Difference("leaf1", "interface", "interface swp1", "mtu", "1500", "9000", "plan", "swp1")
    recording = recorded(tmp_path / "run", (port,))
    nodes = {
        name: NodeAudit(name, name[:-1], interfaces=(
            InterfaceAudit("swp1", "veth", up=True, carrier=True, mtu=mtu, mac="", master="", queue_length=0),
        ))
        for name, mtu in (("leaf1", 1500), ("spine1", 9000))
    }  # fmt: skip
    line = {"ns": recording.clock.start, "fabric": "f", "nodes": {
        name: snapshot.dump_node(node) for name, node in nodes.items()
    }, "drift": [asdict(port)]}  # fmt: skip
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    found = {plan: diagnose_run(recording, "observe", plan=plan).differing for plan in (True, False)}
    assert [(each.node, each.against) for each in found[True]] == [("leaf1", "plan")]
    assert {(each.node, each.against) for each in found[False]} == {
        ("leaf1", "spine1:swp1"),
        ("spine1", "leaf1:swp1"),
    }


def test_a_setting_that_drains_a_switch_says_so(tmp_path: Path) -> None:
    """It loses no packets. The description of a port drains nothing."""
    recording = recorded(tmp_path / "run", None)
    nodes = dict(healthy(recording.topology).nodes)
    for name, node in nodes.items():
        hops = [tuple(hop for hop in each.next_hops if not hop.endswith(" swp1")) for each in node.routes]
        routes = [
            replace(each, next_hops=mine or each.next_hops) for each, mine in zip(node.routes, hops, strict=True)
        ]
        nodes[name] = replace(node, routes=tuple(routes)) if node.role == "leaf" else node
    lines = "router bgp 4200001000 / bgp graceful-shutdown", "interface swp1 / description to leaf1"
    nodes["spine1"] = replace(nodes["spine1"], frr=(*nodes["spine1"].frr, *map(FrrLineAudit, lines)))
    line = {"ns": recording.clock.start, "fabric": "f", "drift": None, "nodes": {
        name: snapshot.dump_node(node) for name, node in nodes.items()
    }}  # fmt: skip
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    found = {each.object: each.touches for each in diagnose_run(recording, "observe").differing}
    (said,) = [each for each in found[f"frr {lines[0]}"] if "drained" in each]
    assert said == "spine1 is drained: no route of others leads over it"
    assert not any("drained" in each for each in found.get(f"frr {lines[1]}", ()))


def with_route(path: Path, *drift: Difference) -> Recording:
    """A manual route of leaf1 to a host of leaf2, compared with the plan."""
    recording = recorded(path, drift)
    wrong = RouteAudit("10.0.0.8/32", "main", "", "unicast", "boot", ("via 10.9.0.9 dev swp1",))
    nodes = {
        "leaf1": NodeAudit("leaf1", "leaf", routes=(wrong,)),
        "spine1": NodeAudit("spine1", "spine", addresses=(AddressAudit("swp1", "10.1.0.0/31", "global"),)),
        "h5": NodeAudit("h5", "host", addresses=(AddressAudit("eth1", "10.0.0.8/31", "global"),)),
    }
    line = {"ns": recording.clock.start, "fabric": "f", "drift": [asdict(each) for each in drift], "nodes": {
        name: snapshot.dump_node(node) for name, node in nodes.items()
    }}  # fmt: skip
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    return recording


def test_a_manual_route_of_the_plan_does_not_take_precedence_over_it(tmp_path: Path) -> None:
    recording = with_route(tmp_path / "run")
    found = {plan: diagnose_run(recording, "observe", plan=plan).differing for plan in (True, False)}
    assert [(each.setting, each.against) for each in found[True]] == [("gateway", "rule")]
    assert [(each.setting, each.expected, each.protocol) for each in found[False]] == [("presence", "absent", "boot")]


def test_a_rule_of_nftables_that_differs_has_its_handle(tmp_path: Path) -> None:
    rule = NftRuleAudit("inet fw input", '[{"drop": null}]', 0, 0, number=7)
    found = Difference.of("leaf1", rule, "presence", "present", "absent", "plan")
    recording = with_route(tmp_path / "run", found)
    line = json.loads(recording.folder.audit.read_text())
    line["nodes"]["leaf1"] = snapshot.dump_node(NodeAudit("leaf1", "leaf", nft=(rule,)))
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    (listed,) = (each for each in diagnose_run(recording, "observe").differing if each.kind == "nft")
    assert listed.handle == 7


def test_a_line_of_frr_that_the_plan_has_is_no_difference_from_siblings(tmp_path: Path) -> None:
    """A topology can have lines for a single switch. Without the plan they differ."""
    recording = recorded(tmp_path / "run", ())
    lines = {
        name: ["router bgp 65001", "router bgp 65001 / bgp deterministic-med"]
        for name in ("leaf1", "leaf2", "spine1")
    }
    lines["leaf1"].append("router bgp 65001 / bgp always-compare-med")
    nodes = {
        name: snapshot.dump_node(NodeAudit(name, name[:-1], frr=tuple(map(FrrLineAudit, each))))
        for name, each in lines.items()
    }
    line = {"ns": recording.clock.start, "fabric": "f", "drift": [], "nodes": nodes}
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    found = {plan: diagnose_run(recording, "observe", plan=plan).differing for plan in (True, False)}
    assert found[True] == ()
    assert [(each.node, each.object) for each in found[False]] == [("leaf1", f"frr {lines['leaf1'][-1]}")]


def test_the_gateway_of_a_route_whose_next_hops_differ_from_the_plan_is_not_listed_twice(tmp_path: Path) -> None:
    hops = Difference(
        "leaf1", "route", "route 10.0.0.8/32", "next hops", "via 10.9.0.9 dev swp1", "via 10.1.0.0 dev swp1", "plan"
    )  # fmt: skip
    found = diagnose_run(with_route(tmp_path / "run", hops), "observe").differing
    assert [(each.setting, each.against) for each in found] == [("next hops", "plan")]


def test_the_mtu_of_a_route_is_listed_once_and_not_as_another_route() -> None:
    """The plan has it in the metrics. Two causes for one setting would each have half of the confidence."""
    mtu = Difference("leaf1", "route", "route 10.0.0.8/31 metric 20", "mtu", "1400", "9000", "rule")
    metrics = replace(mtu, field="metrics", value='[{"mtu": 1400}]', expected="absent", against="plan")
    protocol = replace(mtu, field="protocol", value="boot", expected="bgp", against="plan")
    hops = replace(mtu, field="next hops", value="dev swp1", expected="dev swp2", against="plan")
    assert differing._explained([metrics, protocol, mtu]) == [mtu]
    assert protocol in differing._explained([protocol, mtu, hops])


def test_the_other_end_of_a_link_that_differs_from_its_siblings_is_not_listed(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run", None)
    mtus = {"h1": 1500} | {f"h{number}": 9000 for number in range(2, 8)}
    nodes = {"leaf1": ("leaf", {f"swp{3 + number}": 9000 for number in range(3)})}
    nodes |= {name: ("host", {"eth1": mtu}) for name, mtu in mtus.items()}
    line = {"ns": recording.clock.start, "fabric": "f", "drift": None, "nodes": {
        name: snapshot.dump_node(NodeAudit(name, role, interfaces=tuple(
            InterfaceAudit(port, "veth", up=True, carrier=True, mtu=mtu, mac="", master="", queue_length=0)
            for port, mtu in ports.items()
        ))) for name, (role, ports) in nodes.items()
    }}  # fmt: skip
    recording.folder.audit.write_text(json.dumps(line) + "\n")
    found = diagnose_run(recording, "observe").differing
    assert [(each.node, each.setting, each.against) for each in found] == [("h1", "mtu", "siblings")]


def cables() -> list[CrossedCable]:
    """The uplinks of leaf1, swapped."""
    return [
        CrossedCable(port, other, Evidence("", port, "ip neigh", 1, 1.0))
        for port, other in (("leaf1:swp1", "spine2:swp1"), ("leaf1:swp2", "spine1:swp1"))
    ]


def test_swapped_cables_are_listed_and_what_follows_from_them_is_not(tmp_path: Path) -> None:
    """The plan has the MAC and the link-local address of the planned spine at each port."""
    follows = (
        Difference("leaf1", "neighbour", "neighbour 169.254.0.1 swp1", "mac", "b", "a", "plan", "swp1"),
        Difference("leaf1", "route", "route 10.254.0.1/32", "next hops", "via x dev swp2", "via x dev swp1", "plan"),
        Difference("spine1", "bfd session", "bfd session swp1 fe80::3", "presence", "absent", "present", "plan"),
    )
    recording = recorded(tmp_path / "run", (*PLANNED, *follows))
    found = differing.with_differences(diagnose_run(recording, "observe"), recording, cables(), plan=True)
    listed = [each for each in found.differing if each.kind == "cable"]
    assert [(each.node, each.object, each.value, each.expected, each.against) for each in listed] == [
        ("leaf1", "cable swp1", "spine2:swp1", "spine1:swp1", "topology"),
        ("leaf1", "cable swp2", "spine1:swp1", "spine2:swp1", "topology"),
    ]
    assert {each.kind for each in found.differing} == {"cable", "route", "interface", "sysctl"}
    assert {each.object for each in found.differing if each.kind == "route"} == {"route 10.0.0.8/31"}


def test_swapped_cables_are_listed_without_recorded_settings(tmp_path: Path) -> None:
    recording = begun(tmp_path / "run")
    during(recording, "observe", lambda _: None)
    made = Recording.open(recording.finished())
    found = differing.with_differences(diagnose_run(made, "observe"), made, cables(), plan=True)
    assert [(each.object, each.touches) for each in found.differing] == [("cable swp1", ()), ("cable swp2", ())]


def test_recordings_without_settings_have_none(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "observe", lambda _: None)
    assert diagnose_run(Recording.open(made.finished()), "observe").differing == ()


def test_options_of_a_bridge_s_port_are_not_listed_beside_its_master(tmp_path: Path) -> None:
    def of_port(field: str, value: str, expected: str) -> Difference:
        return Difference("spine1", "interface", "interface swp3", field, value, expected, "plan", "swp3")

    options = of_port("port hairpin", "no", "absent"), of_port("port isolated", "no", "absent")
    joined = diagnose_run(recorded(tmp_path / "joined", (*options, of_port("master", "br9", "none"))), "observe")
    assert [each.setting for each in joined.differing if each.node == "spine1"] == ["master"]
    alone = diagnose_run(recorded(tmp_path / "alone", options), "observe")
    assert [each.setting for each in alone.differing if each.node == "spine1"] == ["port hairpin", "port isolated"]


def test_with_an_address_its_gid_and_the_routes_by_its_interface_are_gone() -> None:
    def gone(kind: str, name: str, expected: str, interface: str = "eth1") -> Difference:
        return Difference("h1", kind, f"{kind} {name}", "presence", "absent", expected, "plan", interface)

    address = gone("address", "10.0.0.1/31 eth1", "present: scope global")
    gid = gone("gid", "f.h1.eth1 1", "present: address 10.0.0.1")
    route = gone("route", "0.0.0.0/0", "present: type unicast, next hops via 10.0.0.0 dev eth1, scope global", "")
    assert differing._explained([address, gid, route]) == [address]
    assert differing._explained([gid, route]) == [gid, route]
    elsewhere = replace(address, interface="eth2")
    assert differing._explained([elsewhere, gid, route]) == [elsewhere, gid, route]


def test_lost_ends_of_a_tunnel_follow_from_a_tunnel_that_differs() -> None:
    shut = Difference("leaf2", "interface", "interface vni7", "up", "no", "yes", "plan", "vni7")
    far = [
        Difference("leaf1", "vni", "vni 7", "remotes", "none", "10.0.0.2", "plan"),
        Difference(
            "leaf1", "fdb", "fdb 00:00:00:00:00:00 vni7 10.0.0.2", "presence", "absent", "present", "plan", "vni7"
        ),
    ]
    tunnels = {("leaf2", "vni7"): "10.0.0.2", ("leaf1", "vni7"): "10.0.0.1"}
    assert differing._without_far_ends([shut, *far], tunnels) == [shut]
    assert differing._without_far_ends([shut, *far], {("leaf2", "vni7"): ""}) == [shut]
    assert differing._without_far_ends([shut, *far], {}) == [shut, *far]
    assert differing._without_far_ends(far, tunnels) == far


def test_lost_ends_of_other_tunnels_do_not_follow_from_a_tunnel_that_differs() -> None:
    limit = Difference("leaf2", "interface", "interface vni7", "ttl", "1", "0", "plan", "vni7")
    flooded = "fdb 00:00:00:00:00:00"
    others = [
        Difference("leaf1", "vni", "vni 7", "remotes", "10.0.0.2", "10.0.0.2, 10.0.0.3", "plan"),
        Difference("leaf1", "fdb", f"{flooded} vni7 10.0.0.3", "presence", "absent", "present", "plan", "vni7"),
        Difference("leaf2", "fdb", f"{flooded} vni8 10.0.0.1", "presence", "absent", "present", "plan", "vni8"),
    ]
    tunnels = {("leaf2", "vni7"): "10.0.0.2", ("leaf2", "vni8"): "10.0.0.2", ("leaf1", "vni7"): "10.0.0.1"}
    assert differing._without_far_ends([limit, *others], tunnels) == [limit, *others]
    own = replace(others[2], object=f"{flooded} vni7 10.0.0.1", interface="vni7")
    assert differing._without_far_ends([limit, own], tunnels) == [limit]


def test_the_state_of_a_bridge_port_follows_from_an_interface_that_is_shut() -> None:
    shut = Difference("leaf2", "interface", "interface vni7", "up", "no", "yes", "plan", "vni7")
    state = replace(shut, field="port state", value="disabled", expected="forwarding")
    assert differing._explained([shut, state]) == [shut]
    assert differing._explained([state]) == [state]
