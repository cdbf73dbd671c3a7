"""``rocelab analyze``: what it prints, its exit codes, and that nothing in a file makes it fail otherwise."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner, Result

from lab.analysis.results.fact_builder import analyse
from lab.cli.app import app
from lab.cli.kit import output
from lab.cli.tables import analysis_tables
from lab.errors import InvalidInput, UsageError
from lab.kernel.process.process import find_tool, run
from tests.bench.traffic import flood, generate
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng, records
from tests.unit.analysis.stories import timed

GOOD = [*packets.write(1, 20), packets.ack(20), packets.pause({3: 9}), packets.pause({3: 0})]
WRONG = [*GOOD, packets.send(21), packets.send(23), packets.ack(22, 0x60), packets.send(22), packets.send(23)]


def rocelab(file: Path, data: bytes | None, *options: str) -> Result:
    if data is not None:
        file.write_bytes(data)
    return CliRunner().invoke(app, ["analyze", str(file), *options], env={"COLUMNS": "200"})


def test_nothing_looks_wrong(tmp_path: Path) -> None:
    done = rocelab(tmp_path / "a", pcapng(records(GOOD)))
    assert done.exit_code == 0
    assert "nothing looks wrong" in done.output
    assert "Queue pairs" in done.output


def test_something_looks_wrong(tmp_path: Path) -> None:
    done = rocelab(tmp_path / "a", pcap(WRONG))
    assert done.exit_code == 1
    assert "1 go-back-N episode, 2 packets retransmitted" in done.output


def trouble(*events: tuple[int, bytes]) -> dict[str, str]:
    """The row of the table of PSNs, by column, of packets at their time in us; empty without a table."""
    with io.StringIO() as out:
        facts = timed(*((1000 * time, 0, frame) for time, frame in events))
        console = Console(file=out, width=300)
        with patch.object(output.stdout, "print", console.print), patch.object(analysis_tables, "stdout", console):
            analysis_tables._troubles(facts)
            analysis_tables._episodes(facts)
        lines = [line for line in out.getvalue().splitlines() if line[:1] in "┃│" and line[:1]]
    rows = [[cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in lines]
    assert len(rows) in {0, 2}, "no episode"
    return dict(zip(*rows, strict=True)) if rows else {}


def test_the_table_of_psns_does_not_count_what_only_the_file_has_in_another_order() -> None:
    """Two queues of a capture card: PSNs 8 to 15 are in the file behind 16 to 23, with earlier times."""
    events = [(psn, packets.send(psn)) for psn in [*range(8), *range(16, 24), *range(8, 16), *range(24, 64)]]
    row = trouble(*events)
    assert row.pop("not in time order") == "8"
    assert {head: cell for head, cell in row.items() if cell and head not in {"link", "from", "to", "QP"}} == {}


def test_the_table_of_psns_counts_losses_of_a_sorted_file() -> None:
    """The control: the same order with rising times."""
    psns = [*range(8), *range(16, 24), *range(8, 16), *range(24, 64)]
    row = trouble(*((time, packets.send(psn)) for time, psn in enumerate(psns)))
    assert (row["missing"], row["gaps"], row["out-of-order"], row["not in time order"]) == ("8", "1", "8", "")


def test_the_table_of_psns_has_question_marks_for_what_the_order_of_the_file_hides() -> None:
    events = [(psn, packets.send(psn)) for psn in [*range(8), *range(16, 24), *range(8, 16), *range(30, 64)]]
    row = trouble(*events)
    assert (row["missing"], row["gaps"], row["not in time order"]) == ("?", "?", "8")


def test_nothing_to_judge(tmp_path: Path) -> None:
    done = rocelab(tmp_path / "a", pcapng(records([bytes(60)])))
    assert done.exit_code == 3
    assert "no RoCE, flow control or VXLAN to judge: 1 packet of LLC, not decoded" in done.output


def test_damage_is_named_and_the_rest_analysed(tmp_path: Path) -> None:
    data = pcapng(records([*GOOD, GOOD[0][:50]]))
    done = rocelab(tmp_path / "a", data + b"\x06\0\0\0\x80")
    assert done.exit_code == 1
    assert "packet 24 ends before its headers do" in done.output
    assert "the file ends inside it" in done.output
    assert "1 WRITE" in done.output


def test_json(tmp_path: Path) -> None:
    done = rocelab(tmp_path / "a", pcapng(records(WRONG)), "--json", "--icrc", "--rate", "1Gbit")
    answer = json.loads(done.output)
    assert answer["verdict"] == "fail"
    assert answer["go_back_n"][0]["cause"] == "PSN Sequence Error"
    assert answer["icrc"]["wrong"] == 0


def test_plots(tmp_path: Path) -> None:
    """The picture is of the kind that its name says, and the tables are the same."""
    bare = rocelab(tmp_path / "a", pcapng(records(WRONG)))
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        done = rocelab(tmp_path / "a", None, "--plot", str(tmp_path / name))
        assert (done.exit_code, done.output) == (bare.exit_code, bare.output)
        assert (tmp_path / name).read_bytes().startswith(magic)
    done = rocelab(tmp_path / "a", pcapng(records([bytes(60)])), "--plot", str(tmp_path / "none.svg"))
    assert done.exit_code == 3
    assert "none.svg was not written" in done.stderr
    assert not (tmp_path / "none.svg").exists()


def test_a_filter_leaves_packets_out(tmp_path: Path) -> None:
    topology = str(Path(__file__).parents[4] / "topologies/clos-2x4.yaml")
    done = rocelab(tmp_path / "a", pcapng(records(GOOD)), "--filter", "src h1", "--fabric", topology)
    assert done.exit_code == 0
    assert "20 packets" in done.output
    assert "flow control left out by the filter, 3 left out" in done.output


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (None, ()),
        (b"text", ()),
        (pcapng([]), ("--rate", "fast")),
        (pcapng([]), ("--rate", "0")),
        (pcapng([]), ("--plot", "a.gif")),
        (pcapng([]), ("--filter", "qpn==")),
        (pcapng([]), ("--filter", "host h1", "--fabric", "none.yaml")),
        (pcapng(records(WRONG)), ("--plot", "/no/such/folder/a.svg")),
    ],
)
def test_usage(tmp_path: Path, data: bytes | None, options: tuple[str, ...]) -> None:
    done = rocelab(tmp_path / "a", data, *options)
    assert isinstance(done.exception, UsageError)


def test_counts_equal_those_that_tshark_gives(tmp_path: Path) -> None:
    """Packets by QP, NAKs, CNPs and marks of a long random conversation, counted from tshark's fields."""
    rng = random.Random(4)
    story = [
        rng.choice(
            [
                packets.send(psn, rng.randrange(1, 900), path=rng.choice([packets.THERE, packets.MARKED])),
                packets.ack(psn, rng.choice([31, 31, 0x60, 0x2E, 0x63])),
                packets.congestion(),
                packets.send(psn, qp=0x33, path=packets.THERE6),
            ]
        )
        for psn in range(2000)
    ]
    file = tmp_path / "story.pcapng"
    file.write_bytes(pcapng(records(story)))
    fields = [f"-e{name}" for name in ("infiniband.bth.destqp", "infiniband.bth.opcode", "ip.dsfield.ecn")]
    fields.append("-einfiniband.aeth.syndrome")
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", *fields])
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    with file.open("rb") as stream:
        facts = analyse(stream, str(file))
    by_qp = Counter(int(row[0], 16) for row in rows)
    assert {flow.qp: flow.packets for flow in facts.flows} == by_qp
    assert sum(flow.cnps for flow in facts.flows) == sum(row[1] == "129" for row in rows)
    assert sum(flow.marked for flow in facts.flows) == sum(row[2] == "3" for row in rows)
    answers: Counter[str] = Counter()
    for flow in facts.flows:
        answers.update(flow.answers)
    syndromes = Counter(int(row[3]) for row in rows if row[3])
    assert answers == {
        "ACK": syndromes[31],
        "PSN Sequence Error": syndromes[0x60],
        "RNR NAK": syndromes[0x2E],
        "Remote Operational Error": syndromes[0x63],
    }


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_hostile_files_get_an_answer(seed: int, icrc: bool) -> None:
    """Octets changed in headers of blocks and packets alike: facts that can be printed, or InvalidInput."""
    rng = random.Random(seed)
    frames = [*WRONG, packets.vxlan(packets.send(1)), packets.tagged(packets.send(2, path=packets.THERE6))]
    frames += [packets.read(24, 5000), *packets.responses(24, 5), packets.congestion()]
    frames = [bytes(_changed(frame, rng, min(len(frame), 90))) for frame in frames]
    data = bytes(_changed(pcapng(records(frames), dropped=1), rng, 200)) if rng.random() < 0.7 else pcap(frames)
    try:
        facts = analyse(io.BytesIO(data), "fuzz", check_icrc=icrc, chunk=rng.choice([600, 5000, 2**20]))
    except InvalidInput:
        return
    assert facts.packets >= 0
    assert all(0 <= flow.marked_share <= 1 and flow.payload >= 0 for flow in facts.flows)


def _changed(data: bytes, rng: random.Random, before: int) -> bytearray:
    changed = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 3])):
        changed[rng.randrange(before)] = rng.choice([0, 0xFF, rng.randrange(256)])
    return changed


_ASK = (
    "import sys; from lab.analysis.results.fact_builder import analyse; "
    "facts = analyse(open(sys.argv[1], 'rb', buffering=0), 'x'); "
    "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM')); "
    "print(facts.packets, len(facts.flows), peak.split()[1])"
)
"""Not ru_maxrss: that counts what the parent had in memory before the child became another program."""


def _memory(file: Path) -> tuple[int, int, int]:
    """Packets, flows, and the KiB that a process of its own took at most."""
    done = subprocess.run([sys.executable, "-c", _ASK, str(file)], capture_output=True, text=True, check=True)
    counted, flows, peak = map(int, done.stdout.split())
    return counted, flows, peak


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Ten times the packets, the same memory to within a few MB; a third of the 150 MB that 10 GB may take."""
    small, large = tmp_path / "small.pcapng", tmp_path / "large.pcapng"
    generate(small, 15_000)
    generate(large, 150_000)
    (_, _, little), (counted, _, much) = _memory(small), _memory(large)
    assert counted >= 150_000
    assert much - little < 8 * 1024
    assert much < 60 * 1024


def test_memory_is_bounded_for_a_flood_of_flows(tmp_path: Path) -> None:
    """Every flow lost packets; flows beyond the limit are counted, not kept. 1 KB each, and what a few flows take."""
    file = tmp_path / "flood.pcapng"
    file.write_bytes(flood(40_000))
    counted, flows, peak = _memory(file)
    assert (counted, flows) == (80_000, 32768)
    assert peak < 80 * 1024
