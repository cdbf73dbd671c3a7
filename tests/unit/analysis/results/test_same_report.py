"""The same packets are the same report, whatever the file is like and however it is read."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.results.fact_builder import analyse
from lab.kernel.process.process import find_tool, run
from lab.wire.pcapng import Direction, Interface, Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng, records
from tests.unit.analysis.encapsulations import TUNNELS
from tests.unit.analysis.stories import NAK, swapped, told

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts
    from lab.wire.pcapng import Record


def story(seed: int) -> list[bytes]:
    """Everything at once: losses, swaps, NAKs, READs, pauses, tunnels and two QPs, with answers lost, too."""
    rng = random.Random(seed)
    frames = [frame for frame in [*swapped()[:400], *packets.write(1001, 30)] if rng.random() > 0.01]
    frames += [packets.read(1031, 5120), *packets.responses(1031, 5), packets.ack(1036, NAK), packets.send(1036)]
    frames += [wrap(packets.send(7)) for wrap in rng.sample(list(TUNNELS.values()), 4)]
    return [*frames, packets.pause({3: 9}), packets.pause({3: 0}), frames[0][:50]]


def nowhere(frames: list[bytes]) -> list[Record]:
    """As a classic pcap has them: of no direction."""
    return [record._replace(direction=Direction.UNKNOWN) for record in records(frames)]


def written(taken: list[Record]) -> bytes:
    output = io.BytesIO()
    writer = Writer(output, "dumpcap")
    writer.add_interface(Interface("pcap"))
    writer.write(taken)
    return output.getvalue()


def report(data: bytes, chunk: int = 2**20) -> AnalysisFacts:
    """Places in the file are where it has them, and no part of the report."""
    facts = analyse(io.BytesIO(data), "story", chunk=chunk)
    return replace(facts, emulated=False)


@settings(max_examples=25, deadline=None)
@given(st.integers(300, 2**17), st.integers(0, 2**32))
def test_no_buffer_changes_the_report(chunk: int, seed: int) -> None:
    assert told(story(seed), chunk) == told(story(seed))


@settings(max_examples=15, deadline=None)
@given(st.integers(300, 2**17), st.integers(0, 2**32))
def test_pcap_in_either_byte_order_and_pcapng_are_the_same(chunk: int, seed: int) -> None:
    frames = story(seed)
    whole = report(written(nowhere(frames)))
    assert report(pcap(frames), chunk) == whole
    assert report(pcap(frames, ">"), chunk) == whole


def test_a_file_in_pieces_is_the_same_file() -> None:
    """Two sections that describe the same link, put together, as cat or a ring leaves them."""
    taken = records(swapped())
    whole = analyse(io.BytesIO(pcapng(taken)), "story")
    parts = analyse(io.BytesIO(pcapng(taken[:300]) + pcapng(taken[300:])), "story")
    assert parts == whole


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.integers(50, 300))
def test_what_editcap_splits_and_mergecap_merges_is_the_same(seed: int, most: int) -> None:
    data = written(nowhere(story(seed)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        whole, merged = folder / "whole.pcapng", folder / "merged"
        whole.write_bytes(data)
        run([find_tool("editcap", "wireshark-common"), "-c", str(most), whole, folder / "part.pcapng"])
        parts = sorted(folder.glob("part*"))
        assert len(parts) > 1
        run([find_tool("mergecap", "wireshark-common"), "-w", merged, *parts])
        assert report(merged.read_bytes()) == report(data)
