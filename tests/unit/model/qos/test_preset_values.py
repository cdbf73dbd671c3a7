"""The values of presets, and the differences between two presets."""

import json

import pytest

from lab.errors import InvalidInput
from lab.model.load import load_topology
from lab.model.qos.preset_values import differences, preset_values
from lab.model.qos.presets import PRESETS, RENAMED
from lab.model.store import dump, restore
from tests.unit.model.qos.fabrics import fabric, node


@pytest.mark.parametrize("name", PRESETS)
def test_without_a_rate_values_are_the_published_ones(name: str) -> None:
    preset, values = PRESETS[name], preset_values(name)
    assert (values["rate"], values["kmin"], values["kmax"], values["pmax"]) == (
        preset.rate, preset.kmin, preset.kmax, preset.pmax,
    )  # fmt: skip
    assert preset.source


@pytest.mark.parametrize("name", PRESETS)
def test_with_a_rate_values_are_what_a_port_gets(name: str) -> None:
    leaf = node(name)
    values, port = preset_values(name, 10**8), leaf.ports["swp3"]
    assert (values["kmin"], values["kmax"]) == (port.queues[3].ecn.kmin, port.queues[3].ecn.kmax)
    pauses = port.pfc.priorities != 0
    assert values["xon"] == (port.groups[3].xon if pauses else None)
    threshold = port.groups[3].alone(leaf.shared)
    assert (values["xoff"], values["drop"]) == ((threshold, None) if pauses else (None, threshold))


def test_without_pfc_a_group_drops_where_it_would_pause() -> None:
    found = {each.setting: (each.first, each.second) for each in differences("connectx", "lossy", 10**8)}
    assert found == {
        "lossless": ([3], []),
        "xoff": (1_893_036, None),
        "xon": (937_500, None),
        "drop": (None, 1_893_036),
    }


def test_only_what_differs_is_listed() -> None:
    found = {
        each.setting: (each.first, each.second) for each in differences("dcqcn-thresholds", "hpcc-thresholds", 10**11)
    }
    assert set(found) == {"kmin", "kmax", "pmax", "alpha", "xoff", "xon", "pool"}
    assert found["pmax"] == (0.01, 0.2)
    assert found["kmin"] == (12_654, 400_000)
    assert differences("pfc-ecn", "pfc-ecn", 10**11) == []


def test_maps_and_weights_are_compared_too() -> None:
    found = {each.setting: (each.first, each.second) for each in differences("sonic", "cisco", 10**11)}
    assert found["DSCP of priority 3"] == ("3,26", "24,26")
    assert found["lossless"] == ([3, 4], [3])
    assert found["cnp"] == (6, 7)
    assert found["watchdog"] == (0.2, None)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_is_refused_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(InvalidInput, match=f"there is no profile {old}; it is called '{new}' now"):
        load_topology(f"name: t\nqos: {old}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 1}}\n")


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_recording_with_an_old_name_has_the_new_one(old: str, new: str) -> None:
    topology = fabric(f"{{fabric: {new}, roles: {{spine: [pfc-ecn, {new}]}}}}")
    kept = dump(topology)
    text = json.dumps(kept).replace(f'"{new}"', f'"{old}"')
    assert restore(json.loads(text)) == topology
