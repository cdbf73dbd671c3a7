"""``rocelab export clabernetes``, applied to the real API server as its documentation says, and read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from lab.model.load import read_topology
from tests.fabric.command import ROOT, TOPOLOGIES, rocelab
from tests.kubernetes import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.cluster import Cluster

CRD: Final = ROOT / "tests/unit/export/schemas/c9s.run_topologies.yaml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With clabernetes' own definition of a Topology."""
    with cluster.running(tmp_path_factory.mktemp("kubernetes")) as found:
        found.kubectl("apply", "--server-side", "-f", CRD)
        found.kubectl("wait", "--for=condition=Established", f"crd/{read(CRD)[0]['metadata']['name']}")
        yield found


def read(path: Path) -> list[Any]:
    """The objects of a manifest."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def lacks(found: Any, wanted: Any, path: str = "") -> list[str]:
    """The parts of ``wanted`` that are not in ``found``; additions of the server do not matter."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [line for key, value in wanted.items() for line in lacks(found.get(key), value, f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [line for at, value in enumerate(wanted) for line in lacks(found[at], value, f"{path}[{at}]")]
    return [] if found == wanted else [f"{path}: {found!r} for {wanted!r}"]


def exported(path: Path) -> bool:
    """Overlays are not, and the command says so."""
    return read_topology(path).overlay is None


@pytest.mark.parametrize("name", [path.stem for path in sorted(TOPOLOGIES.glob("*.yaml")) if exported(path)])
def test_the_server_takes_all_of_it_and_drops_nothing(server: Cluster, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "c9s"
    rocelab("export", "clabernetes", TOPOLOGIES / f"{name}.yaml", "-o", folder)
    server.kubectl("apply", "--validate=strict", "-f", folder)
    objects = [each for path in sorted(folder.glob("*.yaml")) for each in read(path)]
    assert [each["kind"] for each in objects].count("Topology") == 1
    for each in objects:
        place = ("-n", each["metadata"]["namespace"]) if "namespace" in each["metadata"] else ()
        kind = (
            f"{each['kind']}.{each['apiVersion'].split('/')[1]}.c9s.run"
            if each["kind"] == "Topology"
            else each["kind"]
        )
        said = server.kubectl("get", kind, each["metadata"]["name"], *place, "-o", "json").stdout
        assert lacks(json.loads(said), each) == []


def test_the_server_refuses_what_its_definition_does_not_have(server: Cluster, tmp_path: Path) -> None:
    rocelab("export", "clabernetes", TOPOLOGIES / "one-leaf.yaml", "-o", tmp_path / "c9s")
    (topology,) = read(tmp_path / "c9s" / "20-topology.yaml")
    topology["spec"]["deployment"]["noSuchThing"] = 1
    said = server.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(topology), expect=1)
    assert "noSuchThing" in said.stderr


def test_what_the_server_dropped_would_be_seen(server: Cluster, tmp_path: Path) -> None:
    rocelab("export", "clabernetes", TOPOLOGIES / "one-leaf.yaml", "-o", tmp_path / "c9s")
    (topology,) = read(tmp_path / "c9s" / "20-topology.yaml")
    topology["metadata"] |= {"name": "dropped", "namespace": "default"}
    topology["spec"]["noSuchThing"] = 1
    server.kubectl("apply", "--validate=ignore", "-f", "-", stdin=yaml.safe_dump(topology))
    said = server.kubectl("get", "topologies.c9s.run", "dropped", "-o", "json").stdout
    assert lacks(json.loads(said), topology) == [".spec.noSuchThing: None for 1"]
