"""Wrong ICRCs: who or what is to blame, and between which links."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.cli.tables.analysis_tables import verdict
from lab.errors import ExitCode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.journeys import LINKS
from tests.unit.analysis.stories import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.results.analysis_facts import AnalysisFacts


def changed(frame: bytes) -> bytes:
    """With one bit of its payload changed."""
    octets = bytearray(frame)
    octets[70] ^= 0x10
    return bytes(octets)


def journey(wrong: Callable[[int, int], bool], count: int = 20, *, every: bool = True) -> AnalysisFacts:
    """Packets over four links; ``wrong`` says by PSN and link which are changed."""
    taken = []
    for psn in range(count):
        for link in range(len(LINKS)):
            frame = packets.send(psn)
            frame = changed(frame) if wrong(psn, link) else frame
            taken.append(Record(START + psn * 10_000 + link * 1000, link, len(frame), Direction.INBOUND, frame))
    capture = pcapng(taken, *(Interface(name) for name in LINKS))
    return analyse(io.BytesIO(capture), "story", check_icrc=every)


@pytest.mark.parametrize("hop", [1, 2, 3])
def test_the_hop_that_changes_packets_is_named(hop: int) -> None:
    facts = journey(lambda psn, link: psn in {4, 9} and link >= hop)
    (finding,) = facts.findings
    assert "packet " in finding.what
    assert f"between {LINKS[hop - 1]} and {LINKS[hop]}: they were correct before" in finding.meaning
    first = facts.icrc_errors[0]
    assert (first.link, first.wrong, first.checked, first.after) == (LINKS[hop], 2, 20, LINKS[hop - 1])


def test_a_few_at_the_first_link_may_be_the_network_or_the_sender() -> None:
    (finding,) = journey(lambda psn, _: psn == 4).findings
    assert "by the sender, or in the file" in finding.meaning
    assert "silently" in finding.meaning


def test_all_of_them_are_the_senders() -> None:
    (finding,) = journey(lambda _psn, _link: True).findings
    assert "the sender miscalculates the ICRC" in finding.meaning


def test_right_ones_are_no_finding() -> None:
    facts = journey(lambda _psn, _link: False)
    assert not facts.findings
    assert not facts.icrc_errors


def test_wrong_icrcs_are_found_in_a_sample_too() -> None:
    facts = journey(lambda _psn, _link: True, 200, every=False)
    (finding,) = facts.findings
    assert "has a wrong ICRC" in finding.what
    assert f"({facts.icrc.wrong} packets checked)" in finding.what
    assert verdict(facts) is ExitCode.FAIL
    assert 4 * 16 <= facts.icrc.wrong < 4 * 16 + 800 / 32


def test_a_sample_finds_packets_that_are_changed_later_and_names_no_link() -> None:
    """The first packets are right, and the samples of two links are of different packets."""
    facts = journey(lambda psn, link: psn >= 100 and link >= 2, 200, every=False)
    assert facts.icrc.wrong
    (finding,) = facts.findings
    assert "between" not in finding.meaning
    assert "--icrc" in finding.meaning


def test_a_sample_names_the_link_that_changes_every_packet() -> None:
    (finding,) = journey(lambda _psn, link: link >= 2, every=False).findings
    assert f"between {LINKS[1]} and {LINKS[2]}" in finding.meaning


def test_a_sample_of_right_packets_is_no_finding() -> None:
    facts = journey(lambda _psn, _link: False, 200, every=False)
    assert not facts.findings
    assert not facts.icrc.every
    assert facts.icrc.right >= 4 * 16
