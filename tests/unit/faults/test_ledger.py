"""The ledger of faults survives torn writes and dead holders."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lab.faults.ledger import Entry, Holder, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "faults.jsonl")


def entry(place: str = "leaf1:swp1", **more: object) -> Entry:
    return Entry(0, "link-down", place, {"a": 1}, {"was": ["up"]}, **more)  # type: ignore[arg-type]


def test_entries_are_numbered_kept_and_gone_when_healed(ledger: Ledger) -> None:
    first = ledger.injected(ledger.begin(entry()))
    second = ledger.begin(entry("leaf2:swp1"))
    assert [first.number, second.number] == [1, 2]
    assert ledger.entries() == (first, second)
    assert [each.whole for each in ledger.entries()] == [True, False]
    ledger.healed(first)
    assert ledger.entries() == (second,)
    assert ledger.begin(entry()).number == 3


def test_numbers_are_not_used_again_when_all_is_healed(ledger: Ledger) -> None:
    ledger.healed(ledger.begin(entry()))
    assert ledger.entries() == ()
    assert ledger.begin(entry()).number == 2


def test_a_torn_last_line_promised_nothing(ledger: Ledger) -> None:
    kept = ledger.begin(entry())
    whole = ledger.path.read_text()
    ledger.injected(kept)
    ledger.path.write_text(ledger.path.read_text()[:-3])
    assert ledger.entries() == (kept,)
    assert ledger.path.read_text().startswith(whole)


def test_only_root_reads_it(ledger: Ledger) -> None:
    ledger.begin(entry())
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_a_holder_lives_as_long_as_its_process_and_not_as_its_number() -> None:
    assert Holder.current().lives
    assert not Holder(os.getpid(), Holder.current().started + 1).lives
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        held = Holder(sleeper.pid, Holder.of(sleeper.pid).started)
        assert held.lives
        sleeper.kill()
    assert not held.lives


def test_a_holder_is_kept(ledger: Ledger) -> None:
    ledger.begin(entry(holder=Holder.current(), timing="for 1 s"))
    (kept,) = ledger.entries()
    assert kept.holder == Holder.current()
    assert kept.whole
