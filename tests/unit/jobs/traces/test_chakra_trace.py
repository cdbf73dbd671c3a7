"""Chakra traces: what is written is read again, by the published schema; what cannot run is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.errors import InvalidInput, UsageError
from lab.jobs.rank_schedule import JobSchedule, OperationKind, Phase
from lab.jobs.schedule_arithmetic import step_seconds, transfers
from lab.jobs.traces import chakra_trace
from lab.jobs.traces.chakra_trace import GROUPS, MAX_TRACE, chakra_schema, read_traces, write_traces
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RATE: Final = 100_000_000
TEXT: Final = """
ranks: 8
steps: 4
compute: 360ms
layers: 4
allreduce: 400000
data: {overlap: true, shard: true}
tensor: {ranks: 2, allreduce: 50000}
pipeline: {ranks: 2, activations: 100000, microbatches: 3}
expert: {ranks: 2, alltoall: 80000}
storage: {host: h9, load: 60000, checkpoint: 200000, every: 2}
"""
MADE: Final = training_schedule(load_training(TEXT, "spec"), [f"h{number}" for number in range(1, 10)])
COMP, SEND, COLL = 4, 5, 7


def byte_matrix(made: JobSchedule) -> dict[tuple[object, ...], int]:
    """Bytes of each collective and message by kind and ranks, of all measured steps."""
    found: dict[tuple[object, ...], int] = {}
    for variant in made.measured:
        for each in transfers(made.variants[variant]):
            key = (each.kind, *(rank for rank, _ in each.ends))
            found[key] = found.get(key, 0) + each.size
    return found


def test_a_job_that_is_written_and_read_is_the_same_job(tmp_path: Path) -> None:
    write_traces(MADE, tmp_path, "job")
    read = read_traces(tmp_path / "job.0.et")
    assert byte_matrix(read) == byte_matrix(MADE)
    assert (len(read.steps), read.warmup, read.ranks) == (4, 0, 9)
    for one, other in zip(read.steps, MADE.measured, strict=True):
        assert step_seconds(read, one, RATE) == pytest.approx(step_seconds(MADE, other, RATE), rel=1e-3)


def test_the_files_are_those_of_the_published_schema(tmp_path: Path) -> None:
    """Read here by length and message; every type is one of the schema, and ids are unique."""
    write_traces(MADE, tmp_path, "job")
    schema = chakra_schema()
    assert {file.name for file in tmp_path.iterdir()} == {GROUPS, *(f"job.{rank}.et" for rank in range(9))}
    assert json.loads((tmp_path / GROUPS).read_text())["0"] == [0, 1]
    octets = (tmp_path / "job.0.et").read_bytes()
    nodes = []
    while octets:
        length, shift = 0, 0
        while True:
            octet, octets = octets[0], octets[1:]
            length |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                break
        message, octets = octets[:length], octets[length:]
        nodes.append(message)
    assert schema.GlobalMetadata.FromString(nodes[0]).version
    read = [schema.Node.FromString(each) for each in nodes[1:]]
    assert len({node.id for node in read}) == len(read) == sum(len(MADE.variants[each][0]) for each in MADE.measured)
    computed = sum(node.duration_micros for node in read if node.type == schema.COMP_NODE)
    assert computed == pytest.approx(4 * 360_000, rel=1e-3)
    for node in read:
        names = {each.name for each in node.attr}
        if node.type == schema.COMM_COLL_NODE:
            assert {"comm_type", "comm_size", "pg_name"} <= names
        if node.type in {schema.COMM_SEND_NODE, schema.COMM_RECV_NODE}:
            assert {"comm_src", "comm_dst", "comm_tag", "comm_size"} <= names


def node(
    number: int, kind: int, values: Mapping[str, Any] | None = None, after: tuple[int, ...] = (), us: int = 0
) -> Any:
    schema = chakra_schema()
    made = schema.Node(id=number, name=f"n{number}", type=kind, data_deps=after, duration_micros=us)
    for name, value in (values or {}).items():
        attribute = made.attr.add(name=name)
        if isinstance(value, list):
            attribute.int64_list.values.extend(value)
        else:
            setattr(attribute, "string_val" if isinstance(value, str) else "int64_val", value)
    return made


def write(path: Path, *nodes: Any) -> Path:
    octets = b""
    for message in (chakra_schema().GlobalMetadata(version="x"), *nodes):
        text = message.SerializeToString()
        assert len(text) < 128
        octets += bytes((len(text),)) + text
    path.write_bytes(octets)
    return path


SUM: Final = {"comm_type": 0, "comm_size": 4000}


def test_one_trace_may_be_that_of_all_ranks(tmp_path: Path) -> None:
    file = write(tmp_path / "job.et", node(1, COMP, us=5000), node(2, COLL, SUM, (1,)))
    made = read_traces(file, 4)
    assert made.groups == ((0, 1, 2, 3),)
    assert step_seconds(made, 0, RATE) == pytest.approx(0.005 + 1.5 * 32_000 / RATE)
    compute, collective = made.variants[0][3]
    assert (compute.kind, collective.kind, collective.phase) == ("compute", OperationKind.ALLREDUCE, Phase.TRACE)
    with pytest.raises(UsageError, match="is one trace for all ranks: say how many"):
        read_traces(file)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node(1, COMP, after=(2,)), node(2, COMP, after=(1,))], "has a cycle: node 1 waits for itself"),
        ([node(1, COMP, after=(7,))], "node 1 waits for node 7, which is not there"),
        ([node(1, COMP), node(1, COMP)], "node 1 is there twice"),
        ([node(1, 0)], "has the unknown type 0"),
        ([node(1, COMP, us=61_000_000)], "lasts 61000000 us, above 60 s"),
        ([node(1, COMP, us=2**64 - 5)], "lasts 18446744073709551611 us, above 60 s"),
        ([node(1, COLL, {"comm_type": 0})], "has comm_size None: use 4 to"),
        ([node(1, COLL, SUM | {"comm_size": 0})], "has comm_size 0: use 4 to"),
        ([node(1, COLL, SUM | {"comm_size": -4})], "has comm_size -4: use 4 to"),
        ([node(1, COLL, SUM | {"comm_size": 1 << 40})], "has comm_size 1099511627776: use 4 to"),
        ([node(1, COLL, SUM | {"comm_type": 3})], "is the collective 3, which jobs do not have"),
        ([node(1, COLL, SUM | {"comm_type": 6, "comm_size": 4})], "has no element for each of 4 ranks"),
        ([node(1, COLL, SUM | {"pg_name": "x"})], "uses the unknown process group 'x'"),
        ([node(1, SEND, {"comm_dst": 9, "comm_size": 4})], "has the peer 9, which is no other rank"),
        ([node(1, SEND, {"comm_dst": 1, "comm_size": 4, "comm_tag": -1})], "has the tag -1"),
        ([node(1, COLL, {"comm_size": 4, "comm_type": "\x1b[2J"})], r"is the collective '\x1b[2J', which"),
        ([node(1, COLL, {"comm_size": 4, "comm_type": [0]})], "is the collective of another type, which"),
        ([node(1, SEND, {"comm_dst": "x" * 80, "comm_size": 4})], f"has the peer '{'x' * 49}...', which is no"),
        ([], "has no operations"),
    ],
)
def test_a_trace_that_cannot_run_is_refused(tmp_path: Path, nodes: list[Any], why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_traces(write(tmp_path / "job.et", *nodes), 4)
    (problem,) = caught.value.problems
    assert why in problem.message
    assert caught.value.exit_code == 2


def test_a_damaged_or_endless_file_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "job.et", node(1, COLL, SUM)).read_bytes()
    for cut in range(1, len(whole)):
        (tmp_path / "job.et").write_bytes(whole[:cut])
        with pytest.raises(InvalidInput, match=r"truncated|has no operations"):
            read_traces(tmp_path / "job.et", 4)
    (tmp_path / "job.et").write_bytes(b"\xff" * 1000)
    with pytest.raises(InvalidInput, match="truncated in message 0"):
        read_traces(tmp_path / "job.et", 4)
    (tmp_path / "job.et").write_text("num_ranks 4\nrank 0 {}\n" * 20)
    with pytest.raises(InvalidInput, match="is not Chakra's"):
        read_traces(tmp_path / "job.et", 4)
    with (tmp_path / "job.et").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UsageError, match=r"has 1\.074 GB: use at most 67\.11 MB"):
        read_traces(tmp_path / "job.et", 4)
    assert MAX_TRACE < 1 << 30


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "{", "[" * 100_000])
def test_groups_that_are_no_object_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / GROUPS).write_text(text)
    file = write(tmp_path / "job.et", node(1, COLL, SUM | {"pg_name": "0"}))
    with pytest.raises(InvalidInput, match=r"comm_groups\.json: is no JSON object of at most 67\.11 MB"):
        read_traces(file, 4)


def test_the_number_of_ranks_is_that_of_a_single_trace(tmp_path: Path) -> None:
    file = write(tmp_path / "job.et", node(1, COLL, SUM))
    with pytest.raises(UsageError, match=r"has 1000000000000 ranks: use 2 to 64"):
        read_traces(file, 10**12)
    first = write(tmp_path / "job.0.et", node(1, COLL, SUM))
    with pytest.raises(UsageError, match=r"job\.0\.et has 1 rank: use 2 to 64: NAME\.0\.et, NAME\.1\.et"):
        read_traces(first)
    with pytest.raises(UsageError, match=r"--ranks is for one trace .*, and .*job\.0\.et is that of rank 0"):
        read_traces(first, 4)


def test_a_folder_has_the_traces_of_one_job(tmp_path: Path) -> None:
    """They share the groups, and leftover ranks of a larger job would belong to the smaller one."""
    write_traces(MADE, tmp_path, "job")
    write_traces(MADE, tmp_path, "job")
    small = training_schedule(load_training("{ranks: 2, compute: 1ms, allreduce: 8B}", "small"), ["h1", "h2"])
    for name in ("small", "job"):
        with pytest.raises(UsageError, match=r"has traces of another job \(job\.[02]\.et\): name another folder"):
            write_traces(small, tmp_path, name)
    assert byte_matrix(read_traces(tmp_path / "job.0.et")) == byte_matrix(MADE)


def test_a_trace_of_too_many_nodes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra_trace, "MAX_NODES", 2)
    file = write(tmp_path / "job.et", *(node(number, COMP) for number in range(1, 4)))
    with pytest.raises(InvalidInput, match="has more than 2 nodes; record fewer steps"):
        read_traces(file, 4)


def test_a_missing_sibling_is_named(tmp_path: Path) -> None:
    write(tmp_path / "job.0.et", node(1, COLL, SUM))
    write(tmp_path / "job.2.et", node(1, COLL, SUM))
    with pytest.raises(UsageError, match=r"there is no trace .*job\.1\.et: each rank needs one"):
        read_traces(tmp_path / "job.0.et")
    with pytest.raises(UsageError, match=r"cannot be read"):
        read_traces(tmp_path / "none.et", 4)
