"""Chakra execution traces (MLCommons, ``et_def.proto``), one for each rank: converted to a schedule, and from one.

A file is a sequence of messages, each after its length as a varint: ``GlobalMetadata``, and then a ``Node`` for each
operation. The ranks of a collective are the process group that its attribute ``pg_name`` names. Groups are in
``comm_groups.json`` beside the traces, as ASTRA-sim reads them; without a name, all ranks call the collective.

Loads and stores of memory are computations. rocelab's own attribute ``rocelab_step`` keeps the steps of a job apart.
"""

from __future__ import annotations

import heapq
import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from lab.errors import EnvironmentLacks, InvalidInput, Problem, UsageError
from lab.jobs.job_spec import MAX_JOB_SIZE, MAX_STEPS
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.jobs.rank_schedule import JobSchedule, Operation, OperationKind, Phase, check_schedule
from lab.jobs.training_spec import MAX_COMPUTE, MAX_RANKS
from lab.model.values.yamltext import show
from lab.result_files import write_results
from lab.shipped import PACKAGE
from lab.units import counted, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_TRACE: Final = 64 * 2**20
"""Bytes of the largest trace that is read."""
MAX_NODES: Final = 500_000
"""Nodes of the longest trace that is read, which need about 1 GB of memory."""
VERSION: Final = "1.0.0"
"""The version of Chakra whose schema this is."""
GROUPS: Final = "comm_groups.json"
_STEP: Final = "rocelab_step"
_RANK: Final = re.compile(r"(.*)\.(\d+)\.et")
_COLLECTIVES: Final = {
    0: OperationKind.ALLREDUCE,
    2: OperationKind.ALLGATHER,
    5: OperationKind.BROADCAST,
    6: OperationKind.ALLTOALL,
    7: OperationKind.REDUCE_SCATTER,
    8: OperationKind.REDUCE_SCATTER,
}
"""Collectives by ``CollectiveCommType``."""
_NUMBERS: Final = {kind: number for number, kind in reversed(_COLLECTIVES.items())}
_MOST_VARINT: Final = 5
"""Octets of the longest length that is read."""


def chakra_schema() -> Any:
    """Return the module of the schema. EnvironmentLacks without protobuf, which the checkout's .venv may have."""
    for folder in ("", *map(str, (PACKAGE.parent / ".venv" / "lib").glob("python*/site-packages"))):
        if folder and folder not in sys.path:
            sys.path.append(folder)  # a VM has its own Python, and shares the checkout
        try:
            from lab.jobs.traces import et_def_pb2  # noqa: PLC0415 - only traces need protobuf
        except ImportError:
            continue
        return et_def_pb2
    raise EnvironmentLacks("Chakra traces need protobuf", "pip install 'rocelab[chakra]', or run ./scripts/setup")


def read_traces(path: Path, ranks: int | None = None) -> JobSchedule:
    """Return the schedule of ``NAME.0.et`` and its siblings, one for each rank, or of one file that all ranks run.

    ``ranks`` is the number of ranks of such a single file. InvalidInput names the file and the node of what cannot
    run; UsageError for a missing file.
    """
    match = _RANK.fullmatch(path.name)
    if match is None:
        if ranks is None:
            raise UsageError(f"{path} is one trace for all ranks", "say how many: --ranks 4; or name NAME.0.et")
        files = [path] * min(ranks, MAX_RANKS + 1)
    else:
        if ranks is not None:
            what = f"--ranks is for one trace of all ranks, and {path} is that of rank {match[2]}"
            raise UsageError(what, "leave out --ranks")
        files = _siblings(path, match[1])
    if not 2 <= len(files) <= MAX_RANKS:
        have = counted(ranks or len(files), "rank")
        raise UsageError(f"{path} has {have}", f"use 2 to {MAX_RANKS}: NAME.0.et, NAME.1.et")
    groups = _Groups(path.with_name(GROUPS), len(files))
    read = [_Trace(file, rank, groups).steps() for rank, file in enumerate(files)]
    numbers = sorted(set().union(*read))
    if len(numbers) > MAX_STEPS:
        raise InvalidInput(str(path), [Problem("", f"has {len(numbers)} steps", f"use at most {MAX_STEPS}")])
    variants: dict[tuple[tuple[Operation, ...], ...], int] = {}
    steps = [variants.setdefault(tuple(rank.get(number, ()) for rank in read), len(variants)) for number in numbers]
    made = JobSchedule(groups=tuple(groups.used), variants=tuple(variants), steps=tuple(steps))
    if not steps:
        raise InvalidInput(str(path), [Problem("", "has no operations", "record the trace again")])
    check_schedule(made)
    return made


def _siblings(path: Path, name: str) -> list[Path]:
    found = {
        int(match[2]): file
        for file in path.parent.glob("*.et")
        if (match := _RANK.fullmatch(file.name)) and match[1] == name
    }
    for rank in range(max(found, default=0) + 1):
        if rank not in found:
            raise UsageError(f"there is no trace {path.with_name(f'{name}.{rank}.et')}", "each rank needs one")
    return [found[rank] for rank in range(len(found))]


class _Groups:
    """The process groups of a trace, and those that its collectives use."""

    def __init__(self, path: Path, ranks: int) -> None:
        self.path, self.ranks = path, ranks
        self.used: list[tuple[int, ...]] = []
        self._indices: dict[str, int] = {}
        self._named: Mapping[str, Any]
        try:
            if path.is_file() and path.stat().st_size > MAX_TRACE:
                raise ValueError(f"{path} is larger than {MAX_TRACE} bytes")
            named = json.loads(path.read_bytes()) if path.is_file() else {}
            if not isinstance(named, dict):
                raise TypeError(f"{path} is no object")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            what = f"is no JSON object of at most {format_size(MAX_TRACE)}"
            raise InvalidInput(str(path), [Problem("", what, 'write {"0": [0, 1]}')]) from error
        self._named = named

    def index(self, name: str, rank: int) -> int:
        """Return the index of a group. ValueError if it is unknown, or the rank is not in it."""
        if name not in self._indices:
            members = self._named.get(name) if name else list(range(self.ranks))
            if members is None:
                raise ValueError(f"uses the unknown process group {show(name)} (see {self.path.name})")
            if (
                not isinstance(members, list)
                or len(set(map(str, members))) != len(members)
                or len(members) < 2
                or not all(type(each) is int and 0 <= each < self.ranks for each in members)
            ):
                raise ValueError(f"uses the process group {show(name)}, which is no list of two or more ranks")
            self._indices[name] = len(self.used)
            self.used.append(tuple(members))
        index = self._indices[name]
        if rank not in self.used[index]:
            raise ValueError(f"uses the process group {show(name)}, to which rank {rank} does not belong")
        return index


class _Trace:
    """The nodes of one rank's trace."""

    def __init__(self, path: Path, rank: int, groups: _Groups) -> None:
        self.path, self.rank, self.groups = path, rank, groups
        self.nodes: dict[int, Any] = {}
        self.values: dict[int, dict[str, Any]] = {}
        for node in self._read():
            if node.id in self.nodes:
                raise self._bad(f"node {node.id} is there twice")
            self.nodes[node.id] = node
            self.values[node.id] = {
                each.name: getattr(each, each.WhichOneof("value")) for each in node.attr if each.WhichOneof("value")
            }
            if len(self.nodes) > MAX_NODES:
                raise self._bad(f"has more than {MAX_NODES} nodes", "record fewer steps")

    def _bad(self, what: str, remedy: str = "record the trace again") -> InvalidInput:
        return InvalidInput(str(self.path), [Problem("", what, remedy)])

    def _read(self) -> Iterator[Any]:
        schema = chakra_schema()
        try:
            size = self.path.stat().st_size
            if not self.path.is_file():
                raise UsageError(f"{self.path} is no file", "name an execution trace, NAME.0.et")
            if size > MAX_TRACE:
                raise UsageError(f"{self.path} has {format_size(size)}", f"use at most {format_size(MAX_TRACE)}")
            octets = self.path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be read: {error.strerror}", "name an execution trace, NAME.0.et"
            ) from error
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above

        message: Any = schema.GlobalMetadata()
        at, number = 0, 0
        while at < len(octets):
            length, at = self._length(octets, at, number)
            try:
                message.ParseFromString(octets[at : at + length])
            except DecodeError as error:
                raise self._bad(f"message {number} is not Chakra's", "is it an execution trace, *.et?") from error
            if number:
                yield message
            at, number, message = at + length, number + 1, schema.Node()

    def _length(self, octets: bytes, at: int, number: int) -> tuple[int, int]:
        length = 0
        for index in range(_MOST_VARINT):
            if at + index >= len(octets):
                break
            length |= (octets[at + index] & 0x7F) << 7 * index
            if octets[at + index] < 0x80:
                end = at + index + 1
                if end + length <= len(octets):
                    return length, end
                break
        raise self._bad(f"is truncated in message {number}")

    def steps(self) -> dict[int, tuple[Operation, ...]]:
        """Return the operations by step."""
        order = self._order()
        indices: dict[int, int] = {}
        steps: dict[int, list[Operation]] = {}
        for node_id in order:
            step = self._number(node_id, _STEP, 0)
            operations = steps.setdefault(step, [])
            node = self.nodes[node_id]
            after = tuple(
                sorted({indices[before] for before in self._before(node) if self._number(before, _STEP, 0) == step})
            )
            try:
                operations.append(self._operation(node, after))
            except ValueError as error:
                raise self._bad(f"node {node_id} ({node.name[:40]!r}) {error}", "change the trace") from error
            indices[node_id] = len(operations) - 1
        return {step: tuple(operations) for step, operations in steps.items()}

    def _number(self, node: int, name: str, default: int) -> int:
        value = self.values[node].get(name, default)
        return value if isinstance(value, int) else default

    @staticmethod
    def _before(node: Any) -> set[int]:
        return {*node.data_deps, *node.ctrl_deps}

    def _order(self) -> list[int]:
        """Return the nodes by id, each after those that it waits for."""
        missing: dict[int, int] = {}
        followers: dict[int, list[int]] = {}
        for node_id, node in self.nodes.items():
            before = self._before(node)
            for each in before:
                if each not in self.nodes:
                    raise self._bad(f"node {node_id} waits for node {each}, which is not there")
                followers.setdefault(each, []).append(node_id)
            missing[node_id] = len(before)
        ready = [node_id for node_id, count in missing.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            order.append(heapq.heappop(ready))
            for follower in followers.get(order[-1], ()):
                missing[follower] -= 1
                if not missing[follower]:
                    heapq.heappush(ready, follower)
        if len(order) < len(self.nodes):
            first = min(node_id for node_id, count in missing.items() if count)
            raise self._bad(f"has a cycle: node {first} waits for itself", "remove a dependency")
        return order

    def _operation(self, node: Any, after: tuple[int, ...]) -> Operation:
        """Return a node's operation; ValueError with what is wrong."""
        values, phase = self.values[node.id], Phase.TRACE
        match node.type:
            case 1 | 2 | 3 | 4:
                seconds = node.duration_micros / 1e6 if node.type != 1 else 0.0
                if seconds > MAX_COMPUTE:
                    raise ValueError(f"lasts {node.duration_micros} us, above {MAX_COMPUTE:g} s")
                return Operation(kind=OperationKind.COMPUTE, phase=phase, after=after, seconds=seconds)
            case 5 | 6:
                sends = node.type == 5
                peer = values.get("comm_dst" if sends else "comm_src")
                if not isinstance(peer, int) or not 0 <= peer < self.groups.ranks or peer == self.rank:
                    raise ValueError(f"has the peer {_shown(peer)}, which is no other rank")
                kind = OperationKind.SEND if sends else OperationKind.RECEIVE
                tag = values.get("comm_tag", 0)
                if not isinstance(tag, int) or not 0 <= tag < 1 << 20:
                    raise ValueError(f"has the tag {_shown(tag)}, which is not 0 to {(1 << 20) - 1}")
                return Operation(kind=kind, phase=phase, after=after, size=_size(values), peer=peer, tag=tag)
            case 7:
                return self._collective(values, after)
        raise ValueError(f"has the unknown type {node.type}")

    def _collective(self, values: Mapping[str, Any], after: tuple[int, ...]) -> Operation:
        number = values.get("comm_type", 0)
        kind = _COLLECTIVES.get(number) if isinstance(number, int) else None
        group = self.groups.index(str(values.get("pg_name", "")), self.rank)
        ranks = len(self.groups.used[group])
        if number == 9:  # BARRIER
            kind, size = OperationKind.ALLREDUCE, ELEMENT_OCTETS
        elif kind is None or kind.collective is None:
            raise ValueError(f"is the collective {_shown(number)}, which jobs do not have")
        else:
            unit = ELEMENT_OCTETS * (ranks if kind.collective.is_divided else 1)
            size = _size(values) // unit * unit
            if not size:
                raise ValueError(f"has no element for each of {ranks} ranks")
        return Operation(kind=kind, phase=Phase.TRACE, after=after, size=size, group=group)


def _shown(value: object) -> object:
    """Return an attribute's value for an error: it may be a text of any length, or a list."""
    if value is None or isinstance(value, int):
        return value
    return show(value) if isinstance(value, str) else "of another type"


def _size(values: Mapping[str, Any]) -> int:
    size = values.get("comm_size")
    if not isinstance(size, int) or not ELEMENT_OCTETS <= size <= MAX_JOB_SIZE:
        raise ValueError(f"has comm_size {_shown(size)}: use {ELEMENT_OCTETS} to {MAX_JOB_SIZE} bytes")
    return size - size % ELEMENT_OCTETS


def write_traces(schedule: JobSchedule, folder: Path, name: str) -> list[Path]:
    """Write the measured steps of a schedule, one trace for each rank, and its groups; return the files.

    UsageError if a file cannot be written, or if the folder has traces of another job: the groups are those of all
    traces in it.
    """
    schema = chakra_schema()
    written = {f"{name}.{rank}.et" for rank in range(schedule.ranks)}
    others = sorted({file.name for file in folder.glob("*.et")} - written)
    if others:
        raise UsageError(f"{folder} has traces of another job ({others[0]})", "name another folder with -o")
    groups = json.dumps({str(index): group for index, group in enumerate(schedule.groups)})
    files: dict[Path, str | bytes] = {folder / GROUPS: groups}
    for rank in range(schedule.ranks):
        messages = [schema.GlobalMetadata(version=VERSION)]
        last: list[int] = []
        for step, variant in enumerate(schedule.measured):
            first = len(messages) - 1
            operations = schedule.variants[variant][rank]
            for number, operation in enumerate(operations):
                node = _node(schema, rank, operation, first + number)
                node.data_deps.extend(first + before for before in operation.after)
                if not operation.after:
                    node.ctrl_deps.extend(last)
                node.attr.append(schema.AttributeProto(name=_STEP, int32_val=step))
                messages.append(node)
            ended = {before for operation in operations for before in operation.after}
            last = [first + number for number in range(len(operations)) if number not in ended] or last
        files[folder / f"{name}.{rank}.et"] = b"".join(map(_framed, messages))
    write_results(files, "name another folder with -o", folders=[folder])
    return [*files]


def _node(schema: Any, rank: int, operation: Operation, number: int) -> Any:
    node = schema.Node(id=number, name=f"{operation.phase} {operation.kind} {number}")
    attribute = schema.AttributeProto
    node.attr.append(attribute(name="is_cpu_op", bool_val=False))
    if operation.kind is OperationKind.COMPUTE:
        node.type, node.duration_micros = schema.COMP_NODE, round(operation.seconds * 1e6)
        return node
    node.attr.append(attribute(name="comm_size", int64_val=operation.size))
    if operation.group >= 0:
        node.type = schema.COMM_COLL_NODE
        node.attr.append(attribute(name="comm_type", int64_val=_NUMBERS[operation.kind]))
        node.attr.append(attribute(name="pg_name", string_val=str(operation.group)))
        return node
    sends = operation.kind is OperationKind.SEND
    node.type = schema.COMM_SEND_NODE if sends else schema.COMM_RECV_NODE
    source, target = (rank, operation.peer) if sends else (operation.peer, rank)
    node.attr.append(attribute(name="comm_src", int32_val=source))
    node.attr.append(attribute(name="comm_dst", int32_val=target))
    node.attr.append(attribute(name="comm_tag", int32_val=operation.tag))
    return node


def _framed(message: Any) -> bytes:
    octets: bytes = message.SerializeToString()
    length, prefix = len(octets), bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*prefix, length)) + octets
