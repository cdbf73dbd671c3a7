"""Recordings with everything in them, and their damage: any file may be torn, changed, replaced or of another kind.

``damage`` takes any ``random.Random``, so a seed says what is damaged, and how.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store import recording_folder as files
from tests.fuzz.seeds import story
from tests.unit.analysis.captures import pcapng, records
from tests.unit.diagnose.recorded import begun, deaf, during, incast
from tests.unit.telemetry.jobs.made_job import description, steps
from tests.unit.telemetry.jobs.made_requests import requests
from tests.unit.telemetry.made import START, STEP
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.telemetry.made import Made

_SCALARS: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 255, 2**31, 2**32, -(2**63), 2**63, 2**64, 10**40, 0.5, 1e300, float("nan"),
    float("inf"), "", " ", "h1", "leaf1:swp1", "10.0.0.0/33", "fd00::/200", "é", "\x1b[2J", "\u202e", "\ud800",
    "a" * 5000, [], {}, [[]], [{}], {"a": {}}, [None], "nan", "../../etc/passwd", "\n\n", "[red]x[/red]", "\0",
)  # fmt: skip
_HEAD: Final = struct.Struct("<IBxxxIq")
_NUMBERS: Final = (b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f")
_PIECE: Final = 1 << 16
_PIECES: Final = 64
_DEEP: Final = "[" * 200_000
_MANY: Final = 400
_DEEPER, _MOVED, _ANY = 0.85, 0.2, 0.5
"""Chances of a place further inside, of a place without its value, and of a value of any kind."""
_LOG_JSON: Final = {1, 5}
"""Kinds of frames whose content is JSON: the header, and events."""


def whole(path: Path) -> Made:
    """A recording with every kind of file and row; the caller ends it."""
    made = begun(path)
    made.event(
        START + 1, source="routing", kind="bgp", node="leaf1", interface="swp1", state="Established", before=""
    )
    pairs = [queue_pair(qpn, "RTS", remote=remote) for qpn, remote in ((17, 18), (19, 20))]
    made.log.rows(SCHEMA, START + 2, pairs)
    during(made, "baseline", incast)
    made.link("leaf1:swp3", up=False)
    during(made, "observe", deaf)
    made.link("leaf1:swp3", up=True)
    made.log.rows(SCHEMA, made.ns, [queue_pair(17, "ERR", "RTS"), queue_pair(19, "gone", "RTS", remote=20)])
    rows = steps((30, 40, 90))
    folder = made.folder
    files.append_lines(folder.job_steps, rows)
    files.append_lines(folder.records(files.RecordKind.JOB_REQUEST), requests((10, 20, 900)))
    files.append_line(folder.jobs, description(rows))
    files.append_line(folder.transfers, {
        "ns": START + STEP, "src": "h1", "dst": "h4", "verb": "write", "size": 65536, "qps": 2, "messages": 4,
        "seconds": 0.5, "times": [0.1, 0.1, 0.2, 0.1],
    })  # fmt: skip
    files.append_line(folder.commands, {
        "ns": START + STEP, "end_ns": START + 2 * STEP, "node": "h1", "argv": ["ping", "h2"], "exit_code": 1,
        "stdout": "no answer\n", "stderr": "",
    })  # fmt: skip
    files.append_line(folder.truth, {
        "ns": START + 10 * STEP, "did": "injected", "kind": "slow-receiver", "place": "h4",
        "parameters": {"drain": "50Mbit"},
    })  # fmt: skip
    state = json.loads(folder.state("before").read_text())
    files.append_line(
        folder.configuration, {"ns": START + STEP, "nodes": {name: each["qos"] for name, each in state.items()}}
    )
    files.append_line(folder.sysctls, {"ns": START, "nodes": {"leaf1": {"net/ipv4/fib_multipath_hash_policy": "1"}}})
    files.write_json(folder.facts("params"), {"seed": 7, "scenario": "pfc-storm"})
    files.write_json(folder.facts("host"), {"kernel": "7.1", "time": "virtual", "cpu": "made"})
    files.write_json(folder.state("after"), state)
    folder.captures.mkdir()
    (folder.captures / "links.pcapng").write_bytes(pcapng(records(story())))
    return made


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a file or directory of a recording, and return which, and how."""
    every = sorted(folder.rglob("*"))
    if rng.random() < 0.08:
        return _replace_kind(rng.choice([*(each for each in every if each.is_dir()), folder]), rng)
    file = rng.choice([each for each in every if each.is_file()])
    if rng.random() < 0.12:
        return _replace_kind(file, rng)
    kinds: dict[str, Callable[[Path, random.Random], str]] = {
        ".json": _json,
        ".jsonl": _lines,
        ".raw": _frame,
        ".parquet": _table,
        ".cast": _lines,
    }
    own = kinds.get(file.suffix)
    return (own if own and rng.random() < 0.75 else _octets)(file, rng)


def _named(file: Path, how: str) -> str:
    return f"{file.parent.name}/{file.name}: {how}"


def _replace_kind(path: Path, rng: random.Random) -> str:
    """Put something else in the place of a file or directory, or nothing."""
    links = ("nothing", path.name, "/dev/zero", "/dev/tty", ".")
    ways = ["removed", "a directory", "a FIFO", "unreadable", "huge", "aside", *links]
    how = rng.choice(ways)
    if how == "unreadable":
        path.chmod(0)
    elif how == "aside":
        path.symlink_to(path.rename(path.with_name(f"{path.name}.aside")).name)
    else:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        if how == "a directory":
            path.mkdir()
        elif how == "a FIFO":
            os.mkfifo(path)
        elif how == "huge":
            path.touch()
            os.truncate(path, 1 << 40)
        elif how in links:
            path.symlink_to(how)
    return _named(path, f"link to {how}" if how in links else how)


def _octets(file: Path, rng: random.Random) -> str:
    data = file.read_bytes()
    at, many = rng.randrange(len(data) + 1), rng.randint(1, 64)
    number = rng.choice(_NUMBERS)
    changed_to: dict[str, Callable[[], bytes]] = {
        "cut": lambda: data[:at],
        "flipped": lambda: (
            data[:at] + bytes(each ^ 1 << rng.randrange(8) for each in data[at : at + 1]) + data[at + 1 :]
        ),
        "overwritten": lambda: data[:at] + rng.randbytes(many) + data[at + many :],
        "inserted": lambda: data[:at] + rng.randbytes(many) + data[at:],
        "doubled": lambda: data[: at + many * many] + data[at:],
        "a number": lambda: data[:at] + number + data[at + len(number) :],
        "zeros": lambda: data[:at] + bytes(len(data) - at),
        "noise": lambda: rng.randbytes(many * many),
    }
    how = rng.choice(sorted(changed_to))
    file.write_bytes(changed_to[how]())
    return _named(file, f"{how} at {at}")


def _json(file: Path, rng: random.Random) -> str:
    if rng.random() < 0.05:
        file.write_text(_DEEP)
        return _named(file, "deep")
    data, how = changed(json.loads(file.read_text()), rng)
    file.write_text(json.dumps(data))
    return _named(file, how)


def _lines(file: Path, rng: random.Random) -> str:
    lines = file.read_text().splitlines()
    at = rng.randrange(len(lines)) if lines else 0
    if not lines or rng.random() < 0.1:
        lines.insert(at, rng.choice(["", "null", "[]", "{", "5", _DEEP, "\x1b[2J", '{"ns": 1e400}']))
        how = "another line"
    elif rng.random() < 0.2:
        lines[at:at] = lines[at : at + 1] * rng.choice([1, 2, 300])
        how = "doubled line"
    elif rng.random() < 0.1:
        rng.shuffle(lines)
        how = "shuffled"
    else:
        data, how = changed(json.loads(lines[at]), rng)
        lines[at] = json.dumps(data)
    file.write_text("".join(f"{line}\n" for line in lines))
    return _named(file, f"line {at}: {how}")


def changed(data: Any, rng: random.Random) -> tuple[Any, str]:
    """Change a value of JSON data somewhere, or a name, or how often it is there; return it and what was changed."""
    holder: Any = {"": data}
    path: list[Any] = [""]
    while isinstance(value := holder[path[-1]], dict | list) and value and rng.random() < _DEEPER:
        holder = value
        path.append(rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value)))
    at, where = path[-1], ".".join(map(str, path))
    if len(path) > 1 and rng.random() < _MOVED:
        how = rng.choice(["dropped", "renamed"])
        kept = holder.pop(at)
        if how == "renamed" and isinstance(holder, dict):
            holder[rng.choice(["", "x", "é", "\x1b[2J", f"{at}2"])] = kept
        return data, f"{where} {how}"
    if isinstance(holder, list) and rng.random() < _MOVED:
        holder[at:at] = [value] * _MANY
        return data, f"{where} many times"
    new = _other(value, rng)
    if len(path) == 1:
        return new, f"all is {str(new)[:30]!r}"
    holder[at] = new
    return data, f"{where} is {str(new)[:30]!r}"


def _other(value: Any, rng: random.Random) -> Any:
    """A value in place of this one: any, one that is similar, or it in a list or an object."""
    near: list[Any] = [[value], {"x": value}, [value] * 3, [[value]], str(value)]
    if isinstance(value, int | float):
        near += [value + 1, value - 1, -value, value * 10**9, float(value)]
    elif isinstance(value, str):
        near += [value[:-1], f"{value}x", value.upper(), f"{value}/33", value * _MANY, value.replace(".", ":")]
    return rng.choice(_SCALARS if rng.random() < _ANY else near)


def _frame(file: Path, rng: random.Random) -> str:
    """Change a frame of a log, and its checksum."""
    data = file.read_bytes()
    frames: list[tuple[int, int, bytes]] = []
    at = 0
    while at + _HEAD.size + 4 <= len(data):
        _, kind, length, ns = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size + 4
        frames.append((kind, ns, data[start : start + length]))
        at = start + length
    number = 0 if rng.random() < 0.3 else rng.randrange(len(frames))
    kind, ns, content = frames[number]
    how = "octets"
    what = rng.random()
    if what < 0.1:
        ns, how = rng.choice([0, -1, 2**63 - 1, -(2**63), ns - 10**12]), "time"
    elif what < 0.15:
        kind, how = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 255]), "kind"
    elif what < 0.2:
        frames[number:number] = frames[number : number + 3] * 3
        how = "doubled"
    elif kind in _LOG_JSON:
        changed_data, how = changed(json.loads(content), rng)
        content = json.dumps(changed_data).encode()
    elif what < 0.5:
        content = content[: rng.randrange(len(content) + 1)]
        how = "cut"
    else:
        octets = bytearray(content)
        place = rng.randrange(len(octets) + 1)
        new = rng.choice([*_NUMBERS, rng.randbytes(4)])
        octets[place : place + len(new)] = new
        content = bytes(octets)
    if how != "doubled":
        frames[number] = kind, ns, content
    out = bytearray()
    for each_kind, each_ns, each in frames:
        head = _HEAD.pack(0x314C5452, each_kind, len(each), each_ns)
        out += head + struct.pack("<I", zlib.crc32(each, zlib.crc32(head))) + each
    file.write_bytes(out)
    return _named(file, f"frame {number} of kind {kind}: {how}")


def _table(file: Path, rng: random.Random) -> str:
    """Rewrite a table: a column of another type, without values, absent or twice, other rows, or very many."""
    table = pq.read_table(file)
    name = rng.choice(table.column_names)
    place = table.column_names.index(name)
    count = table.num_rows
    others: dict[str, Callable[[], pa.Table]] = {
        "text": lambda: table.set_column(place, name, pa.array(["\x1b[2J"] * count)),
        "binary": lambda: table.set_column(place, name, pa.array([b"\xff\xfe"] * count)),
        "nulls": lambda: table.set_column(place, name, pa.nulls(count, table.schema.field(name).type)),
        "null type": lambda: table.set_column(place, name, pa.nulls(count)),
        "nan": lambda: table.set_column(place, name, pa.array([float("nan")] * count)),
        "negative": lambda: table.set_column(place, name, pa.array([-(2**63)] * count, pa.int64())),
        "large": lambda: table.set_column(place, name, pa.array([2**64 - 1] * count, pa.uint64())),
        "lists": lambda: table.set_column(place, name, pa.array([[1]] * count)),
        "structs": lambda: table.set_column(place, name, pa.array([{"a": 1}] * count)),
        "bool": lambda: table.set_column(place, name, pa.array([True] * count)),
        "absent": lambda: table.remove_column(place),
        "twice": lambda: table.append_column(name, table.column(name)),
        "no rows": lambda: table.slice(0, 0),
        "one row": lambda: table.slice(0, 1),
        "fewer rows": lambda: table.slice(0, count - 1),
        "other order": lambda: table.take(pa.array(rng.sample(range(count), count))),
        "doubled": lambda: pa.concat_tables([table, table]),
        "no columns": lambda: table.select([]),
    }
    how = rng.choice([*sorted(others), "many rows"])
    if how == "many rows":
        _write_many(file, table)
    else:
        pq.write_table(others[how](), file, compression="zstd")
    return _named(file, f"{name}: {how}")


def _write_many(file: Path, table: pa.Table) -> None:
    """Equal rows, which take almost no space."""
    piece = table.slice(0, 1).take([0] * _PIECE)
    with pq.ParquetWriter(file, table.schema, compression="zstd") as writer:
        for _ in range(_PIECES):
            writer.write_table(piece)
