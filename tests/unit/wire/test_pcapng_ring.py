"""Rings of files: bounded space, nothing lost between files, each whole by itself."""

import io
from pathlib import Path

import pytest

from lab.analysis.read.records import Reader
from lab.errors import UsageError
from lab.wire.pcapng import Direction, Interface, Record, Statistics
from lab.wire.pcapng_ring import SMALLEST, RingWriter


def record(number: int) -> Record:
    return Record(number, number % 2, 9000, Direction.INBOUND, number.to_bytes(4) + bytes(number * 7 % 9000))


def write(path: Path, count: int, batch: int) -> list[Path]:
    with RingWriter(path, 3, SMALLEST) as ring:
        for name in ("leaf1:swp1", "h1:eth1"):
            ring.add_interface(Interface(name))
        for start in range(0, count, batch):
            ring.write(map(record, range(start, start + batch)))
        for interface in (0, 1):
            ring.write_statistics(interface, Statistics(count, 0))
        return ring.paths


@pytest.mark.parametrize("batch", [1, 100, 2000])
def test_the_last_packets_are_there_in_order_and_in_bounded_space(tmp_path: Path, batch: int) -> None:
    paths = write(tmp_path / "run.pcapng", 2000, batch)
    assert sorted(tmp_path.iterdir()) == paths
    assert len(paths) == 3
    assert all(path.stat().st_size <= SMALLEST for path in paths)
    assert paths[0].name != "run_00001.pcapng"
    numbers = []
    for path in paths:
        reader = Reader(io.BytesIO(path.read_bytes()), path.name)
        numbers += [record.timestamp for record in reader]
        assert [interface.name for interface in reader.interfaces] == ["leaf1:swp1", "h1:eth1"]
        assert set(reader.statistics) == ({0, 1} if path == paths[-1] else set())
    assert numbers == list(range(numbers[0], 2000))


def test_a_short_capture_is_one_file(tmp_path: Path) -> None:
    assert [path.name for path in write(tmp_path / "run.pcapng", 10, 10)] == ["run_00001.pcapng"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*no/run_00001.pcapng: No such file"):
        RingWriter(tmp_path / "no" / "run.pcapng", 3, SMALLEST)
