"""``nic.cc``: registers as published, the law that scales them, and the contradictions that are refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from lab.errors import InvalidInput
from lab.model.qos.advice import advise
from lab.model.qos.change import apply_preset, change
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.congestion.cc_registers import (
    RATES,
    TIMES,
    CcAlgorithm,
    CcQos,
    CcRegisters,
    CnpModeration,
    floor_rate,
)
from lab.model.qos.congestion.cc_summary import scaling_lines
from lab.model.qos.headroom import roce_frame
from lab.model.qos.link import LinkChange
from lab.model.qos.presets import DEFAULT, PRESETS
from lab.model.qos.qos_store import dump_node, restore_node
from lab.model.qos.resolve import resolve
from lab.model.store import dump, restore
from lab.model.topology import Role, Topology
from lab.rdma.measure import DEFAULT_TIMEOUT
from tests.unit.model.qos.fabrics import fabric, node, port, profile

if TYPE_CHECKING:
    from lab.model.qos.port import PortQos

US, MS = 1e-6, 1e-3


def topology(qos: str, rate: str = "100Mbit") -> Topology:
    """A fabric whose links all have an MTU of 1500."""
    pairs = [f"{a}--{b}" for a in ("leaf1", "leaf2") for b in ("spine1", "spine2")]
    pairs += ["leaf1--h1", "leaf1--h2", "leaf2--h3", "leaf2--h4"]
    lines = "".join(f"  {pair}: {{mtu: 1500}}\n" for pair in pairs)
    return fabric(qos, rate=rate, extra=f"overrides:\n{lines}")


def host(qos: str, rate: str = "100Mbit", name: str = "h1") -> PortQos:
    return resolve(topology(qos, rate))[name].ports["eth1"]


def control(qos: str, rate: str = "100Mbit", name: str = "h1") -> CcQos:
    found = host(qos, rate, name).cc
    assert found is not None
    return found


def test_times_grow_rates_shrink_and_bytes_stay() -> None:
    """25 Gb/s to 100 Mb/s: s = 250. 300 us become 75 ms, 5 Mb/s become 20 kb/s, 2,097,088 bytes stay."""
    here = control("connectx").registers
    assert (here.rpg_time_reset, here.dce_tcp_rtt, here.rate_reduce_monitor_period) == (75 * MS, 250 * US, 1 * MS)
    assert (here.rpg_ai_rate, here.rpg_hai_rate) == (20_000, 200_000)
    assert here.rpg_byte_reset == 32_767 * 64
    assert (here.min_time_between_cnps, here.dce_tcp_g, here.rpg_gd) == (1 * MS, 1019, 11)


@pytest.mark.parametrize("name", CC_PRESETS)
@pytest.mark.parametrize("rate", [10**7, 3 * 10**7, 10**8, 10**9])
def test_what_has_no_dimension_is_the_same_at_any_rate(name: str, rate: int) -> None:
    """Each time x rate, each rate / line rate: the normalised curves of a preset overlay."""
    cc = CC_PRESETS[name].qos(rate, 1146)
    for register in TIMES:
        real = getattr(cc.published, register) * cc.real_rate
        assert getattr(cc.registers, register) * rate == pytest.approx(real)
    for register in set(RATES) - {"rpg_min_rate"}:
        real = getattr(cc.published, register) / cc.real_rate
        assert getattr(cc.registers, register) / rate == pytest.approx(real, abs=1 / rate)


@pytest.mark.parametrize("name", CC_PRESETS)
def test_thresholds_of_these_presets_keep_their_bytes(name: str) -> None:
    for rate in (10**7, 10**8, 10**9):
        ecn = PRESETS[name].port(rate, 1500, 0.0).queues[3].ecn
        assert (ecn.kmin, ecn.kmax) == (PRESETS[name].kmin, PRESETS[name].kmax)


def test_the_minimum_rate_is_a_packet_in_a_quarter_of_the_qp_timeout() -> None:
    """8 x (1146 + 24) bits in 4.096 us x 2^18 / 4 = 268.4 ms are 34,869 b/s; 1 Mb/s / 250 would be 4 kb/s."""
    assert control("connectx").registers.rpg_min_rate == floor_rate(1146) == 34_869
    assert control("hpcc").registers.rpg_min_rate == 4_000_000, "1 Gb/s / 250 is above the floor"
    assert 8 * (1146 + 24) / floor_rate(1146) <= 4.096e-6 * 2**DEFAULT_TIMEOUT / 4


@pytest.mark.parametrize("name", CC_PRESETS)
def test_every_register_of_a_preset_has_a_source(name: str) -> None:
    assert set(CC_PRESETS[name].sources) == set(CC_PRESETS[name].qos(10**8, 1146).names)


def test_every_register_is_of_some_algorithm() -> None:
    """And what a preset of another algorithm has there takes no effect, so it is not shown."""
    shown = [set(preset.qos(10**8, 1146).names) for preset in CC_PRESETS.values()]
    assert set.union(*shown) == {each.name for each in fields(CcRegisters)}
    assert "rpg_gd" not in CC_PRESETS["timely"].qos(10**8, 1146).names
    assert "timely_beta" not in CC_PRESETS["paper"].qos(10**8, 1146).names


def test_timely_is_scaled_as_its_thresholds_are() -> None:
    """10 Gb/s to 100 Mb/s: s = 100. 50 us become 5 ms, 10 Mb/s become 100 kb/s, 0.875 stays; no switch marks."""
    cc = control("timely")
    here = cc.registers
    assert (cc.algorithm, cc.np, cc.rp, float(cc.scale)) == (CcAlgorithm.TIMELY, False, True, 100.0)
    assert (here.timely_t_low, here.timely_t_high, here.timely_min_rtt) == (5 * MS, 50 * MS, 2 * MS)
    assert (here.timely_add_step, here.timely_initial_rate, here.rpg_min_rate) == (100_000, 0, 100_000)
    assert (here.timely_alpha, here.timely_beta) == (0.875, 0.8)
    leaf = resolve(topology("timely"))["leaf1"]
    assert not any(queue.ecn.enabled for port in leaf.ports.values() for queue in port.queues)
    assert advise(topology("timely")) == (), "without marks it does something"


def test_another_algorithm_starts_from_its_own_preset() -> None:
    before = resolve(topology("connectx"))["h1"]
    said = ["nic.cc.algorithm=timely", "nic.cc.timely_beta=0.5"]
    after = change(before, Role.HOST, ["eth1"], said).ports["eth1"].cc
    expected = CC_PRESETS["timely"].qos(10**8, roce_frame(1500))
    assert after == replace(expected, published=replace(expected.published, timely_beta=0.5))
    assert change(before, Role.HOST, ["eth1"], ["nic.cc.algorithm=dcqcn"]) == before


def test_only_hosts_have_it_and_off_has_none() -> None:
    nodes = resolve(topology("paper"))
    assert all(port.cc is None for port in nodes["leaf1"].ports.values())
    assert nodes["h4"].ports["eth1"].cc is not None
    assert host("off").cc is None
    assert host("pfc-ecn").cc is None
    marks, quiet = (resolve(topology(name))["leaf1"] for name in ("paper", "off"))
    assert marks == quiet, "the switches of both are the same"


def test_a_profile_changes_registers_of_the_real_nic() -> None:
    cc = control("{fabric: [connectx, mine], profiles: {mine: {nic: {cc: {rpg_ai_rate: 10Mbit}}}}}")
    assert (cc.published.rpg_ai_rate, cc.registers.rpg_ai_rate) == (10_000_000, 40_000)
    cc = control(profile("{nic: {cc: {real_rate: 100Gbit, moderation: port, np: false}}}"))
    assert (float(cc.scale), cc.moderation, cc.np, cc.rp) == (1000.0, CnpModeration.PORT, False, True)
    assert cc.published == CC_PRESETS["connectx"].registers, "a port without any starts from a ConnectX's"


def test_one_host_can_be_off_or_have_other_registers() -> None:
    attached = "nodes: {h1: greedy, h2: other}"
    profiles = "profiles: {greedy: {nic: {cc: {algorithm: off}}}, other: {nic: {cc: {preset: hpcc}}}}"
    nodes = resolve(topology(f"{{fabric: paper, {attached}, {profiles}}}"))
    assert nodes["h1"].ports["eth1"].cc is None
    assert nodes["h2"].ports["eth1"].cc == CC_PRESETS["hpcc"].qos(10**8, roce_frame(1500))
    assert nodes["h3"].ports["eth1"].cc == CC_PRESETS["paper"].qos(10**8, roce_frame(1500))


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (
            "{preset: paper, rpg_min_rate: 50Gbit}",
            "nic.cc.rpg_min_rate: rpg_min_rate is 125 Mb/s (50 Gb/s / 400), above the link's 100 Mb/s",
        ),
        (
            "{preset: connectx, cnp_dscp: 26}",
            "nic.cc.cnp_dscp: cnp_dscp 26 has priority 3, which is lossless: a pause would hold CNPs back",
        ),
        (
            "{preset: connectx, cnp_dscp: 8}",
            "nic.cc.cnp_dscp: cnp_dscp 8 has priority 0 in queue 0, shared with best effort, priority 0",
        ),
        ("{preset: connectx, rpg_hai_rate: 1Mbit}", "rpg_hai_rate 1 Mb/s is below rpg_ai_rate 5 Mb/s"),
        (
            "{preset: connectx, real_rate: link}",
            "unscaled: 3.2 packets of 1.146 KB at 100 Mb/s, so a rate is back before a queue can be marked; raise",
        ),
        (
            "{preset: connectx, real_rate: 1Gbit, rpg_hai_rate: 2Gbit}",
            "rpg_hai_rate is 200 Mb/s (2 Gb/s / 10), above",
        ),
        ("{rpg_time_reset: 300}", "300 has no unit; write it like 300us: mlxconfig counts in us"),
        ("{rpg_ai_rate: 5}", "5 has no unit; write it like 5Mbit: mlxconfig counts in Mb/s"),
        ("{rpg_byte_reset: 32767}", "32767 has no unit; write it like 10MB: mlxconfig counts in 64 bytes"),
        ("{algorithm: reno}", "'reno' is not a known algorithm; choose dcqcn, timely or off"),
        (
            "{preset: timely, real_rate: link}",
            "timely_t_low is 50 us, unscaled: 0.53 packets of 1.146 KB at 100 Mb/s, so no RTT is below it; raise",
        ),
        ("{preset: timely, timely_t_high: 40us}", "timely_t_high 40 us is not above 50 us of timely_t_low"),
        ("{preset: timely, timely_add_step: 20Gbit}", "timely_add_step is 200 Mb/s (20 Gb/s / 100), above"),
        ("{preset: timely, timely_beta: 1.5}", "1.5 is too big; choose 1.0 or less"),
        ("{preset: cisco}", "'cisco' is not a preset with registers; choose paper, connectx, hpcc, hpcc-paper"),
        ("{real_rate: 1kbit}", "1 kb/s is out of range; choose 1 Mb/s to 800 Gb/s"),
        ("{dce_tcp_g: 1024}", "1024 is too big; choose 1023 or less"),
        ("{rpg_thresold: 1}", "did you mean 'rpg_threshold'?"),
    ],
)
def test_a_contradiction_is_one_line(said: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        topology(profile(f"{{nic: {{cc: {said}}}}}"))
    (problem,) = caught.value.problems
    assert complaint in f"{problem.path}: {problem.message}; {problem.remedy}"
    assert problem.path.startswith("qos.profiles.mine.nic.cc.")


def test_a_remedy_works() -> None:
    """249.6 Mb/s leave eight packets between two increases: enough."""
    cc = control(profile("{nic: {cc: {preset: connectx, real_rate: 250Mbit}}}"))
    assert cc.registers.rpg_time_reset == 750 * US


def test_nic_settings_are_not_for_switches() -> None:
    with pytest.raises(InvalidInput, match=r"mine has nic\.cc, which is for hosts, not for a leaf"):
        topology("{roles: {leaf: mine}, profiles: {mine: {nic: {cc: {preset: paper}}}}}")
    with pytest.raises(InvalidInput, match=r"nic\.cc: is for hosts, not for a leaf"):
        change(node("pfc-ecn"), Role.LEAF, ["swp3"], ["nic.cc.preset=paper"])


def test_live_changes_have_the_same_words() -> None:
    before = resolve(topology("connectx"))["h1"]
    after = change(before, Role.HOST, ["eth1"], ["nic.cc.rpg_ai_rate=10Mbit", "nic.cc.clamp_tgt_rate=true"])
    cc = after.ports["eth1"].cc
    assert cc is not None
    assert (cc.registers.rpg_ai_rate, cc.published.clamp_tgt_rate) == (40_000, True)
    assert change(before, Role.HOST, ["eth1"], ["nic.cc.algorithm=off"]).ports["eth1"].cc is None
    fresh = apply_preset(resolve(topology("pfc-ecn"))["h1"], Role.HOST, ["eth1"], PRESETS["hpcc"]).ports["eth1"].cc
    assert fresh == CC_PRESETS["hpcc"].qos(10**8, roce_frame(1500))
    switch = resolve(topology("pfc-ecn"))["leaf1"]
    assert apply_preset(switch, Role.LEAF, ["swp3"], PRESETS["hpcc"]).ports["swp3"].cc is None


def test_state_survives_json() -> None:
    said = "{nic: {cc: {preset: hpcc, moderation: destination, rpg_time_reset: 200us}}}"
    made = topology(profile(said))
    assert restore(dump(made)) == made
    qos = resolve(made)["h1"]
    assert restore_node(json.loads(json.dumps(dump_node(qos)))) == qos


def test_a_recording_from_before_has_the_thresholds_that_hpcc_meant_then() -> None:
    """Such a recording has no version of its names."""
    data = json.loads(dump(fabric("{fabric: hpcc-thresholds}")))
    del data["qos"]["names"]
    old = json.loads(json.dumps(data).replace("hpcc-thresholds", "hpcc"))
    assert restore(json.dumps(old)) == fabric("{fabric: hpcc-thresholds}")
    assert restore(dump(fabric("{fabric: hpcc}"))) == fabric("{fabric: hpcc}")


@pytest.mark.parametrize("fabric_names", ["[lab]", "[nvidia, lab]", "[]", "[mine]", "[mine, sonic]"])
def test_a_recording_from_before_lab_had_congestion_control_has_none(fabric_names: str) -> None:
    """Its preset, and the base of profiles, was what ``pfc-ecn`` is now."""
    said = f"{{fabric: {fabric_names}, nodes: {{h1: lab}}, profiles: {{mine: {{pfc: {{rx: false}}}}}}}}"
    data = json.loads(dump(fabric(said)))
    data["qos"]["names"] = 2
    restored = resolve(restore(json.dumps(data)))
    names = fabric_names.replace("lab", "pfc-ecn").strip("[]")
    base = "" if names.startswith("nvidia") else "pfc-ecn, "
    then = said.replace(fabric_names, f"[{base}{names}]").replace("lab", "pfc-ecn")
    assert restored == resolve(fabric(then))
    assert all(port.cc is None for node in restored.values() for port in node.ports.values())
    assert restore(dump(fabric(said))) == fabric(said)


def test_by_default_senders_slow_down_before_a_pause() -> None:
    default, marks = PRESETS[DEFAULT].port(10**8, 9000, 0.0), PRESETS["pfc-ecn"].port(10**8, 9000, 0.0)
    assert replace(default, cc=None) == marks, "the switches are the same at the rate that they are for"
    assert marks.cc is None
    assert default.cc == CC_PRESETS["paper"].qos(10**8, roce_frame(9000))
    assert host("{profiles: {}}").cc == host("lab").cc is not None
    assert advise(fabric("lab")) == (), "also with large packets"


def test_large_packets_and_missing_marks_are_warned_of() -> None:
    (kmin,) = advise(fabric("paper"))
    assert (kmin.field, kmin.message) == ("ecn.3.kmin", "kmin 5 KB is less than 3 packets of 4.218 KB")
    assert advise(topology("paper")) == ()
    quiet = "{roles: {leaf: quiet, spine: quiet}, fabric: paper, profiles: {quiet: {ecn: {3: {enabled: false}}}}}"
    (none,) = advise(topology(quiet))
    assert none.message == "queue 3 of RoCE does not mark, and hosts have congestion control"


def test_a_switch_that_pauses_cnps_is_warned_of() -> None:
    said = "roles: {leaf: mixed}, profiles: {mixed: {map: {dscp: {48: 3}}}}"
    (paused,) = advise(topology(f"{{fabric: paper, {said}}}"))
    assert len(paused.ports) == 8
    assert (paused.field, paused.message) == (
        "map.dscp.48", "CNPs have priority 3, which is lossless: a pause holds them back"
    )  # fmt: skip
    assert advise(topology(f"{{fabric: pfc-ecn, {said}}}")) == (), "no NIC sends CNPs"


def test_a_link_that_is_slowed_down_keeps_its_nics_registers() -> None:
    assert LinkChange(rate=5 * 10**7).applied(host("connectx")).cc == control("connectx")
    assert control("connectx", rate="50Mbit").registers.rpg_time_reset == 150 * MS, "not so a link that is built slow"


def test_a_line_for_each_set_of_registers() -> None:
    lines = list(scaling_lines(resolve(topology("{fabric: connectx, nodes: {h2: paper}}"))))
    assert lines[0].startswith("h1:eth1 h3:eth1 h4:eth1: dcqcn, s = 25 Gb/s / 100 Mb/s = 250: rpg_time_reset 75 ms")
    assert "rpg_min_rate 34.87 kb/s (one packet in a quarter of the QP timeout)" in lines[0]
    assert "a link delay of 1 us becomes 250 us" in lines[0]
    assert lines[1].startswith("h2:eth1: dcqcn, s = 40 Gb/s / 100 Mb/s = 400:")
    assert port("pfc-ecn", "h1:eth1").cc is None
