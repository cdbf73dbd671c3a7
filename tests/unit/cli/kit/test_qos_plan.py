"""``rocelab qos presets`` and ``plan``: values without a fabric."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit.output import stdout
from lab.errors import LabError, UsageError
from lab.model.load import load_topology
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.headroom import roce_frame
from lab.model.qos.presets import PRESETS
from lab.model.qos.resolve import resolve
from tests.unit.model.qos.fabrics import SHAPE


def qos(*words: str) -> str:
    result = CliRunner().invoke(app, ["qos", *words])
    if isinstance(result.exception, LabError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_preset_is_listed_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 160)
    text = qos("presets")
    for name, preset in PRESETS.items():
        assert name in text
        assert preset.source[:60] in text
    listed = json.loads(qos("presets", "--json"))
    assert {each["preset"]: each["kmin"] for each in listed} == {n: preset.kmin for n, preset in PRESETS.items()}


def test_a_difference_has_both_values() -> None:
    text = qos("presets", "--diff", "sonic", "nvidia")
    assert "differences on links of 100 Gb/s" in text
    assert "lossless priorities" in text
    found = {
        each["setting"]: each["values"] for each in json.loads(qos("presets", "--diff", "sonic", "nvidia", "--json"))
    }
    assert found["pmax"] == {"sonic": 0.05, "nvidia": 1.0}
    assert "group of priority 3" not in found


def test_presets_that_do_not_differ_are_a_sentence_and_no_empty_table() -> None:
    assert qos("presets", "--diff", "sonic", "sonic") == "sonic and sonic do not differ on links of 100 Gb/s.\n"
    assert json.loads(qos("presets", "--diff", "sonic", "sonic", "--json")) == []


def test_values_are_scaled_to_a_rate() -> None:
    (slow,) = json.loads(qos("presets", "pfc-ecn", "--rate", "1Gbit", "--json"))
    assert (slow["rate"], slow["kmin"]) == (10**9, 400_000)


def test_registers_are_listed_with_sources_only_for_presets_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 200)
    assert "rpg_time_reset" not in qos("presets")
    text = qos("presets", "paper", "--rate", "100Mbit")
    assert "registers of paper: s = 40 Gb/s / 100 Mb/s = 400" in text
    assert "github.com/bobzhuyb/ns3-rdma (the paper's authors), mix/config.txt" in text
    differ = {each["setting"] for each in json.loads(qos("presets", "--diff", "paper", "off", "--json"))}
    assert {"cc", "cc_scale", "nic.cc.rpg_time_reset"} <= differ
    assert not differ & {"kmin", "kmax", "pmax", "xoff"}


def test_a_plan_scales_registers_and_keeps_bytes() -> None:
    words = ("plan", "--rate", "25Gbit", "--mtu", "1500", "--cc", "connectx")
    (real,) = {each["value"] for each in json.loads(qos(*words, "--json"))["choices"] if each["name"] == "kmin"}
    assert json.loads(qos(*words, "--json"))["cc"]["registers"]["rpg_time_reset"] == 0.075
    text = qos(*words, "--yaml")
    assert f"kmin: {real:.0f}," in text
    assert "fabric: [connectx, planned]" in text
    made = load_topology(f"name: t\ndefaults: {{rate: 100Mbit, mtu: 1500}}\n{SHAPE}\n{text}")
    cc = resolve(made)["h1"].ports["eth1"].cc
    assert cc == CC_PRESETS["connectx"].qos(10**8, roce_frame(1500))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan --cc sonic", "--cc: sonic has no registers: choose paper, connectx, hpcc, hpcc-paper"),
        ("plan --cc connectx --rate 100Mbit", "--cc connectx: rpg_time_reset is 300 us, unscaled: 0.88 packets"),
        ("presets sonik", "there is no preset sonik: did you mean 'sonic'"),
        ("presets --diff sonic dcqcn", "there is no preset dcqcn: it is called 'dcqcn-thresholds' now"),
        ("presets lab --diff sonic lab", "both --diff and presets"),
        ("presets --rate fast", "--rate: 'fast' is not a rate"),
        ("presets --rate 0", "--rate: 0 is not a rate"),
        ("plan --rate 900Tbit", "--rate: 900 Tb/s is out of range: choose 1 Mb/s to 800 Gb/s"),
        ("plan --length 3ly", "--length: '3ly' is not a length: write it like 5m, 300m or 2km"),
        ("plan --length 0m", "--length: 0 m is out of range"),
        ("plan --rtt 2s", "--rtt: 2 s is out of range"),
        ("plan --mtu 4096 --port-mtu 1500", "--port-mtu 1500 is less than --mtu 4096"),
        ("plan --yaml --json", "both --yaml and --json are given"),
        ("plan --yaml --link-rate 100Gbit", "--link-rate: 100 Gb/s is out of range"),
        ("plan --buffer much", "--buffer: 'much' is not a size"),
    ],
)
def test_what_is_wrong_is_named_with_the_choices(words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        qos(*words.split())
    assert str(caught.value).startswith(said)


def test_a_plan_shows_its_arithmetic_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 200)
    text = qos("plan", "--rate", "100Gbit", "--length", "40m", "--mtu", "4096", "--senders", "16", "--buffer", "12MB")
    for part in (
        "394 quanta x 512 / 8", "IEEE 802.3 clause 31B.3.7", "69347 B, the sum", "RTT 4.264 us",
        "SONiC's formula gives",
        "drops in the lossless class", "2.097 MB", "Kmax keeps below it",
    ):  # fmt: skip
        assert part in text


def test_a_plan_in_json_has_the_same_figures() -> None:
    made = json.loads(qos("plan", "--rate", "25Gbit", "--length", "2km", "--senders", "4", "--json"))
    choices = {each["name"]: each["value"] for each in made["choices"]}
    assert choices["headroom"] == sum(term["bytes"] for term in made["headroom_terms"])
    assert choices["buffer"] == 4 * (choices["xoff"] + choices["headroom"])
    assert made["length"] == 2000
    assert made["ecn_bound"] is None


def test_a_plan_as_yaml_is_accepted_by_topology_check(tmp_path: Path) -> None:
    file = tmp_path / "planned.yaml"
    shape = "generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 4}"
    file.write_text(f"name: t\ndefaults: {{rate: 100Mbit}}\n{shape}\n{qos('plan', '--yaml', '--mtu', '4096')}")
    checked = CliRunner().invoke(app, ["topology", "check", str(file)])
    assert (checked.exit_code, checked.stderr) == (0, "")
