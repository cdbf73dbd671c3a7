"""The rows about limited QPs: one for each change, and a last one for a QP that has recovered."""

from __future__ import annotations

from lab.dataplane.numbering import Numbering
from lab.dataplane.port_layout import LIMITERS
from lab.telemetry.sample.qp_rates import INTERVAL, SCHEMA, QpRates
from lab.telemetry.store.row_tables import unpack
from tests.unit.dataplane.made_maps import empty
from tests.unit.dataplane.test_limited_qps import HOST, OTHER


def test_a_row_is_for_each_change_and_a_last_one_for_a_recovered_qp() -> None:
    maps = empty(Numbering({"h1": OTHER, "h2": HOST}))
    rates = QpRates(maps, [OTHER, HOST], 0)
    assert not list(rates.look(0)), "no QP is limited"
    limiter = maps.limiters[HOST.nic("eth1") * LIMITERS]
    limiter["qpn"], limiter["started"], limiter["rate"], limiter["cnps"] = 17, 1, 10**6, 1
    maps.ports["state"]["limited"][HOST.port("eth1")] = 1
    assert not list(rates.look(INTERVAL - 1)), "the next reading is not due"
    (row,) = rates.look(INTERVAL)
    assert (row["node"], row["interface"], row["qpn"], row["rate"], row["limited"]) == ("h2", "eth1", 17, 10**6, 1)
    assert not list(rates.look(2 * INTERVAL)), "nothing has changed"
    limiter["rate"] = 2 * 10**6
    (row,) = rates.look(3 * INTERVAL)
    assert row["rate"] == 2 * 10**6
    maps.ports["state"]["limited"][HOST.port("eth1")] = 0
    limiter["started"] = 0
    (row,) = rates.look(4 * INTERVAL)
    assert (row["qpn"], row["limited"]) == (17, 0)
    assert not list(rates.look(5 * INTERVAL))


def test_a_row_fits_the_table() -> None:
    maps = empty(Numbering({"h1": OTHER}))
    limiter = maps.limiters[3]
    limiter["qpn"], limiter["started"], limiter["alpha"], limiter["rtt"] = 17, 1, 1 << 25, 2_500_000
    limiter["alpha_at"] = 2**63  # the next update
    maps.ports["state"]["limited"][OTHER.port("eth1")] = 1
    rows = list(QpRates(maps, [OTHER], 0).look(0))
    schema, packed = unpack(memoryview(SCHEMA.pack(rows)))
    assert schema == SCHEMA
    assert (packed["peer"][0], packed["alpha"][0], packed["rtt"][0]) == (b"::", 0.5, 2_500_000)
