"""``rocelab export``: what it writes, what it says that it left out, how it ends."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.fabrics.export import app
from lab.cli.fabrics.import_lab import app as importer
from lab.errors import UsageError
from lab.model.load import load_topology, read_topology

SHIPPED = Path(__file__).parents[4] / "topologies"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return result.stderr


def test_a_lab_is_written_and_what_it_lacks_is_told(tmp_path: Path) -> None:
    told = run("containerlab", SHIPPED / "one-leaf.yaml", "-o", tmp_path / "lab", "--image", "frr:mine")
    assert told.startswith(f"wrote {tmp_path / 'lab'}\nleft out: qos: ")
    assert told.endswith(f"sudo containerlab deploy -t {tmp_path / 'lab' / 'clab.yml'}\n")
    assert (tmp_path / "lab" / "clab.yml").read_text().count("image: frr:mine\n") == 2


def test_manifests_are_written(tmp_path: Path) -> None:
    told = run(
        "clabernetes", SHIPPED / "one-leaf.yaml", "-o", tmp_path / "c9s", "--node-selector", "rocelab/rdma=yes"
    )
    assert told.endswith(f"kubectl apply -f {tmp_path / 'c9s'}\n")
    assert "nodeSelector:\n        rocelab/rdma: yes" in (tmp_path / "c9s" / "20-topology.yaml").read_text().replace(
        "'", ""
    )


@pytest.mark.parametrize(
    ("selector", "error"), [("rdma", "--node-selector rdma: no =: write it like"), ("a b=c", "a b=c is no label")]
)
def test_a_label_that_cannot_be(selector: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=error):
        run("clabernetes", SHIPPED / "one-leaf.yaml", "-o", tmp_path / "c9s", "--node-selector", selector)


def test_a_lab_comes_back(tmp_path: Path) -> None:
    run("containerlab", SHIPPED / "one-leaf.yaml", "-o", tmp_path / "lab")
    told = CliRunner().invoke(importer, ["containerlab", str(tmp_path / "lab" / "clab.yml")], catch_exceptions=False)
    assert load_topology(told.stdout) == replace(read_topology(SHIPPED / "one-leaf.yaml"), qos=None)
    assert told.stderr == "left out: qos: a lab has none; with qos: lab every port is a lossless one\n"


@pytest.mark.parametrize(
    ("file", "options", "error"),
    [
        ("no-such.yaml", [], "there is no file"),
        ("one-leaf.yaml", ["--image", "Not An Image"], "'Not An Image' is not an image: write one like"),
        ("one-leaf.yaml", ["--host-image", "x:"], "'x:' is not an image"),
        ("one-leaf.yaml", ["-o", SHIPPED], "is not empty: name another with -o"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(
    file: str, options: list[str], error: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=error) as told:
        run("containerlab", SHIPPED / file, "-o", tmp_path / "lab", *options)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_an_overlay_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has an overlay"):
        run("containerlab", SHIPPED / "tenant.yaml", "-o", tmp_path / "lab")
    assert not (tmp_path / "lab").exists()
