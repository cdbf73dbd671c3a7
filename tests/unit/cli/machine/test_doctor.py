"""The doctor's words and exit codes, from findings made up for the occasion."""

import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit.output import stdout
from lab.cli.machine import doctor
from lab.doctor.capabilities import CAPABILITIES
from lab.doctor.remedies import HostDistribution
from lab.errors import ExitCode
from lab.kernel.bpf.probe import ProbeFinding

HOST = HostDistribution("debian", "x86_64", "6.1.0-35-amd64", root=True, in_vm=False, kvm=False)


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the doctor find everything but what is named."""

    def arrange(*names: str) -> None:
        findings = {entry.name: ProbeFinding(entry.name not in names, "seen") for entry in CAPABILITIES}
        monkeypatch.setattr(doctor, "this_host", lambda: HOST)
        monkeypatch.setattr(doctor, "look", lambda *_: findings)

    return arrange


def test_a_fabric_that_works_only_in_the_vm_is_good_enough(lacking: Callable[..., None]) -> None:
    lacking("FRR")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == ExitCode.PASS


def test_a_fabric_that_works_nowhere_is_the_environments_fault(lacking: Callable[..., None]) -> None:
    lacking("FRR", "QEMU")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == ExitCode.ENVIRONMENT


def test_the_table_names_each_lack_and_its_remedy(
    lacking: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking("FRR", "containerlab")
    monkeypatch.setattr(stdout, "width", 200)
    said = CliRunner().invoke(app, ["doctor"]).stdout
    row = next(line for line in said.splitlines() if "FRR" in line)
    assert "no: seen" in row
    assert "apt-get install frr" in row
    assert "optional: " in next(line for line in said.splitlines() if "containerlab" in line)


def test_json_carries_the_same(lacking: Callable[..., None]) -> None:
    lacking("netem")
    data = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    by_name = {entry["name"]: entry for entry in data["capabilities"]}
    assert by_name["netem"] | {"serves": ""} == {
        "name": "netem",
        "serves": "",
        "optional": False,
        "present": False,
        "detail": "seen",
        "remedy": "rocelab vm up",
    }
    assert by_name["veth"]["remedy"] == ""
    works = {entry["feature"]: entry["place"] for entry in data["features"]}
    assert works["delay and impairment"] == "in the VM"
    assert works["RDMA"] == "here"
