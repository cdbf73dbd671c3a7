"""Whatever a topology or a change may say fits the fields of a port's record, or is refused before it is written."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.dataplane import configure
from lab.dataplane.configure import port_record
from lab.dataplane.numbering import number_ports
from lab.dataplane.port_layout import CONFIG
from lab.errors import InvalidInput
from lab.model.load import load_topology
from lab.model.qos.change import change
from lab.model.qos.headroom import HOST_REACTION, VIRTUAL_REACTION
from lab.model.qos.port import MAX_SIZE
from lab.model.qos.presets import PRESETS
from lab.model.qos.resolve import resolve
from lab.model.topology import Role, Topology
from tests.unit.model.qos.fabrics import fabric, node

SIZES = {
    "queue": {"kmin": "ecn: {3: {kmin: %s}}", "kmax": "ecn: {3: {kmax: %s}}", "limit": "buffer: {queues: {3: %s}}"},
    "group": {
        field: f"buffer: {{groups: {{3: {{{field}: %s}}}}}}" for field in ("reserved", "xoff", "xon", "headroom")
    },
}
FIXED = {("queue", "weight"), ("group", "alpha"), ("group", "lossless")}
"""Of 32 bits too: their own bounds are far below."""


def written(topology: Topology, reaction: float = HOST_REACTION) -> None:
    """Every port's record, as ``up`` writes it."""
    numbering = number_ports(topology)
    for name, qos in resolve(topology, reaction).items():
        for interface, port in qos.ports.items():
            port_record(port, numbering.nodes[name], interface, "02:00:00:00:00:01")


def _reordered(record: np.dtype[Any]) -> np.dtype[Any]:
    """The same fields, from the last to the first, in the structures inside as well."""
    fields: Any = record.fields
    found = []
    for name, (layout, *_) in reversed(fields.items()):
        base = layout.base
        found.append((name, _reordered(base) if base.fields else base, layout.shape))
    return np.dtype(found)


def _plain(record: Any) -> Any:
    """By the names of fields, whatever their order."""
    if record.dtype.names is None:
        return record.tolist()
    return {name: _plain(record[name]) for name in sorted(record.dtype.names)}


def test_a_record_is_filled_by_the_names_of_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that change their places in the C struct keep their values."""
    topology = fabric("pfc-ecn")
    node, qos = number_ports(topology).nodes["leaf1"], resolve(topology)["leaf1"].ports["swp3"]
    record = port_record(qos, node, "swp3", "02:00:00:00:00:01")
    monkeypatch.setattr(configure, "CONFIG", _reordered(CONFIG))
    other = port_record(qos, node, "swp3", "02:00:00:00:00:01")
    assert other.dtype != record.dtype
    assert _plain(other) == _plain(record)
    assert record["queue"]["kmax"][3] == qos.queues[3].ecn.kmax > 0
    assert record["group"]["headroom"][3] == qos.groups[3].headroom > 0


def test_every_32_bit_size_of_a_record_is_known_here() -> None:
    fields = {
        (part, name)
        for part in ("queue", "group")
        for name, (kind, *_) in (CONFIG[part].base.fields or {}).items()
        if kind == np.dtype("u4")
    }
    assert fields == FIXED | {(part, name) for part, names in SIZES.items() for name in names}


@pytest.mark.parametrize(("part", "field"), [(part, field) for part, names in SIZES.items() for field in names])
@pytest.mark.parametrize("amount", ["1.5s", "10s"])
def test_a_time_that_is_more_bytes_than_a_field_holds_is_refused(part: str, field: str, amount: str) -> None:
    mine = f"{{{SIZES[part][field] % amount}}}"
    with pytest.raises(InvalidInput, match=rf"{field} of .* at 25 Gb/s, is more than a port can have"):
        fabric(f"{{fabric: mine, profiles: {{mine: {mine}}}}}", rate="25Gbit")


@pytest.mark.parametrize(("rate", "delay"), [("25Gbit", "1s"), ("25Gbit", "700ms"), ("17Gbit", "1s")])
@pytest.mark.parametrize("preset", PRESETS)
def test_headroom_of_a_long_fast_link(preset: str, rate: str, delay: str) -> None:
    with pytest.raises(InvalidInput, match=r"^<text>:3: qos: headroom of [4-6].* GB, at .* with a delay of "):
        load_topology(
            f"name: t\ndefaults: {{rate: {rate}, delay: {delay}}}\nqos: {preset}\n"
            "nodes: {l: {role: leaf}, s: {role: spine}}\nlinks: [{ends: [l, s]}]\n"
        )


def test_a_change_of_a_running_port_is_refused_too() -> None:
    with pytest.raises(InvalidInput, match=r"ecn\.3\.kmax: kmax of 31.25 GB, at 25 Gb/s, is more than"):
        change(node("pfc-ecn", rate="25Gbit"), Role.LEAF, ["swp1"], ["ecn.3.kmax=10s"])


AMOUNTS = st.one_of(
    st.integers(0, MAX_SIZE).map(str), st.integers(0, 10**7).map("{}us".format), st.sampled_from(["0", "10s", "4GB"])
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([*PRESETS]),
    st.tuples(st.integers(10**6, 25 * 10**9), st.integers(1280, 9216), st.integers(0, 10**6)),
    st.sampled_from([HOST_REACTION, VIRTUAL_REACTION]),
    st.sampled_from([text for names in SIZES.values() for text in names.values()]),
    AMOUNTS,
)
def test_whatever_is_accepted_can_be_written(
    preset: str, link: tuple[int, int, int], reaction: float, field: str, amount: str
) -> None:
    rate, mtu, delay = link
    text = (
        f"name: t\ndefaults: {{rate: {rate}, mtu: {mtu}, delay: {delay}us}}\n"
        "nodes: {l: {role: leaf}, s: {role: spine}}\nlinks: [{ends: [l, s]}]\n"
        f"qos: {{fabric: [{preset}, mine], profiles: {{mine: {{{field % amount}}}}}}}\n"
    )
    try:
        topology = load_topology(text, reaction=reaction)
    except InvalidInput:
        return
    written(topology, reaction)
