"""``rocelab fault`` as people use it, on a fabric whose ports are arrays."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.errors import LabError
from lab.faults.catalogue import KINDS
from lab.model.load import load_topology
from tests.unit.running import Running, run

TOPOLOGY = load_topology(
    "name: broken\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(TOPOLOGY, tmp_path, monkeypatch)


def fault(*words: str) -> Result:
    return CliRunner().invoke(app, ["fault", *words])


def test_the_kinds_are_listed_and_each_is_shown() -> None:
    listed = json.loads(fault("ls", "--kinds", "--json").stdout)
    adapter("fault ls --kinds").validate_python(listed)
    assert [kind["kind"] for kind in listed] == list(KINDS)
    shown = fault("show", "link-loss").stdout
    assert "A link loses some packets, and no counter shows it: a gray failure." in shown
    assert "place: leaf1--spine1, both directions, or leaf1:swp1" in shown
    assert "one-in" in shown
    assert {kind: json.loads(fault("show", kind, "--json").stdout) for kind in KINDS} == {
        kind["kind"]: kind for kind in listed
    }


def test_what_is_injected_is_listed_with_how_to_heal_it(ran: Running) -> None:
    done = fault("inject", "port-config", "leaf1", "set=ecn.3.kmin=1KB")
    assert done.exit_code == 0
    assert done.stderr == "fault 1: port-config at leaf1; rocelab fault heal 1 removes it\n"
    (entry,) = json.loads(fault("ls", "--json").stdout)
    assert entry == {
        "number": 1, "kind": "port-config", "place": "leaf1", "parameters": {"set": "ecn.3.kmin=1KB"}, "whole": True,
        "timing": "", "pid": None,
    }  # fmt: skip
    assert "port-config │ leaf1 │ set=ecn.3.kmin=1KB │ there" in fault("ls").stdout
    assert fault("heal", "1").stderr == "1 fault healed\n"
    assert json.loads(fault("ls", "--json").stdout) == []
    assert ran.state.faults.exists()


def test_by_the_clock_it_says_how_often_it_came(ran: Running) -> None:
    words = ("inject", "pauses-ignored", "h1", "--every", "20ms", "--for", "1ms", "--times", "2")
    assert fault(*words).stderr == "pauses-ignored at h1 came 2 times\n"
    came = json.loads(fault(*words, "--json").stdout)
    assert came == {"kind": "pauses-ignored", "place": "h1", "came": 2, "interrupted": False}
    adapter("fault inject").validate_python(came)
    assert ran.maps.config[ran.id("h1:eth1")]["pfc_rx"] != 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("inject", "link-down", "h9"), "link-down: no node or tier 'h9' in fabric broken: there is h1 to h2"),
        (("inject", "pauses-ignored", "h1", "--for", "soon"), "--for: 'soon' is not a time: write it like 5us"),
        (
            ("inject", "pauses-ignored", "h1", "--every", "1s"),
            "--every needs the duration of each repetition: add --for",
        ),
        (("heal",), "heal takes numbers, or --all: rocelab fault ls lists the numbers"),
        (("heal", "3"), "there is no fault 3: no fault is injected"),
        (("show", "link-dawn"), "there is no kind of fault 'link-dawn': did you mean 'link-down'?"),
    ],
)
def test_what_cannot_be_is_told(ran: Running, words: tuple[str, ...], told: str) -> None:
    done = fault(*words)
    assert isinstance(done.exception, LabError)
    assert done.exception.exit_code == 2
    assert told in str(done.exception)
    assert not ran.state.faults.exists()
