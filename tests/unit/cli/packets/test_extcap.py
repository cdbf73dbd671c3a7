"""``rocelab extcap`` as Wireshark calls it, and tshark's own opinion of what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import UsageError
from lab.kernel.process.process import find_tool
from tests.patience import PATIENCE
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import run

if TYPE_CHECKING:
    from pathlib import Path


def said(*words: str) -> str:
    done = CliRunner().invoke(app, ["extcap", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_interfaces_are_the_links_of_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(fabric("pfc-ecn"), tmp_path, monkeypatch)
    monkeypatch.setattr("lab.cli.packets.extcap.fabric_state.all_fabrics", lambda: [made.state])
    first, whole, *links = said("--extcap-interfaces", "--extcap-version=4.0").splitlines()
    name = made.state.name
    assert first.startswith("extcap {version=")
    assert whole == f"interface {{value=rocelab:{name}}}{{display=rocelab {name}, all links}}"
    ends = [str(end) for link in made.state.load_topology().links for end in link.ends]
    assert [line.partition("}")[0] for line in links] == [f"interface {{value=rocelab:{name}:{end}" for end in ends]
    assert " to " in links[0]


def test_link_types_and_options() -> None:
    assert said("--extcap-dlts", "--extcap-interface", "rocelab:a:b:c") == (
        "dlt {number=1}{name=EN10MB}{display=Ethernet}\n"
    )
    assert said("--extcap-config", "--extcap-interface", "rocelab:a:b:c").startswith("arg {number=0}{call=--filter}")


@pytest.mark.parametrize(
    "words",
    [(), ("--capture", "--extcap-interface", "eth0", "--fifo", "/x"), ("--install", "--to", "/proc/none")],
)
def test_usage(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        said(*words)


def test_one_command_installs_it_and_tshark_takes_it(tmp_path: Path) -> None:
    """tshark runs the program for its list of link types: it prints ours, and no complaint."""
    assert f"installed in {tmp_path}" in said("--install", "--to", str(tmp_path))
    program = tmp_path / "rocelab"
    assert os.access(program, os.X_OK)
    assert program.read_text().startswith(f"#!{sys.executable}\n")
    done = subprocess.run(
        [program, "--extcap-interfaces"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.startswith("extcap {version=")
    environment = os.environ | {"WIRESHARK_EXTCAP_DIR": str(tmp_path)}
    tshark = [find_tool("tshark", "tshark"), "-D"]
    listed = subprocess.run(tshark, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "extcap" not in listed.stderr
    said("--remove", "--to", str(tmp_path))
    assert not program.exists()
