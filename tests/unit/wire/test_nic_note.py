"""The congestion control of a NIC in a capture: written, read again, and shown by an independent reader."""

from __future__ import annotations

import io
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.capture_file import CaptureFile
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.congestion.cc_registers import CnpModeration
from lab.wire.nic_note import NicNote
from lab.wire.pcapng import Interface
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from pathlib import Path

ON = NicNote.of("h4:eth1", "10.0.0.4", CC_PRESETS["paper"].qos(10**8, 1500))
NOTES = (
    ON,
    replace(ON, rp=False, scope=CnpModeration.PORT),
    replace(ON, np=False, address="2001:db8::4", apart=4e-12),
    NicNote.of("h4:eth1", "10.0.0.4", None),
)


def test_a_note_has_the_registers_at_the_labs_rate() -> None:
    """50 us at 40 Gb/s are 20 ms at 100 Mb/s."""
    assert str(ON) == "congestion control of h4:eth1 (10.0.0.4): np rp, min_time_between_cnps 0.02 s per qp"
    assert str(NOTES[-1]) == "congestion control of h4:eth1 (10.0.0.4): off"


@pytest.mark.parametrize("note", NOTES, ids=str)
def test_a_capture_keeps_it(note: NicNote) -> None:
    file = CaptureFile(io.BytesIO(pcapng([], Interface("leaf1:swp6", nic=note), Interface("leaf1:swp1"))), "made")
    assert list(file) == []
    assert [interface.nic for interface in file.interfaces] == [note, None]


@pytest.mark.parametrize(
    "text",
    ["", "a comment of somebody", f"{ON} ", str(ON).replace("qp", "all"), str(ON).replace("0.02", "nan"),
     str(ON).replace("0.02", "9" * 400), str(ON).replace("np rp", ""), str(ON).replace("10.0.0.4", "\x1b[31m")],
)  # fmt: skip
def test_other_comments_are_ignored(text: str) -> None:
    assert NicNote.parse(text) is None


def test_wireshark_shows_it_as_the_comment_of_the_interface(tmp_path: Path) -> None:
    file = tmp_path / "noted.pcapng"
    file.write_bytes(pcapng(records([packets.send(1)]), Interface("leaf1:swp6", nic=ON)))
    said = subprocess.run(["capinfos", str(file)], capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"Comment = {ON}\n" in said
