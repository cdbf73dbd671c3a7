"""``rocelab qos presets`` and ``plan``: values without a fabric."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit.output import stdout
from lab.errors import LabError, UsageError
from lab.model.qos.presets import PRESETS


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


def test_values_are_scaled_to_a_rate() -> None:
    (slow,) = json.loads(qos("presets", "lab", "--rate", "1Gbit", "--json"))
    assert (slow["rate"], slow["kmin"]) == (10**9, 400_000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
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
