"""Baselines of made recordings: robust statistics, and which values of another recording deviate from them."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.dataplane.port_layout import Drop
from lab.errors import LabError, UsageError
from lab.report.baseline import learned_baseline
from lab.report.baseline.learned_baseline import compare, learn, load, save
from lab.report.baseline.window_values import FEWEST, ValueKey, window_values
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose.recorded import begun
from tests.unit.telemetry.made import plain_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.report.baseline.learned_baseline import BaselineDeviation, LearnedBaseline
    from lab.report.baseline.window_values import WindowValues
    from lab.telemetry.read.series import RecordingPhase

EVERY: Final = 0.1
"""Seconds of a window: two samples."""
PORT: Final = "leaf1:swp6"
KEY: Final = ValueKey("port", PORT, 3, "tx_bps")
NORMAL: Final = (100, 102, 98, 100, 104, 96, 100, 102, 98, 100)
"""Thousand bytes that the port sends in each window."""


def run(path: Path, sent: Sequence[int], drops: Sequence[int] = (), name: str = "observe") -> Recording:
    """A recording whose port sends so many thousand bytes in each window, and drops so many packets."""
    made = begun(path)
    made.phase(name)
    for number, thousands in enumerate(sent):
        made.counters(PORT)["queue"]["drop_packets"][3][Drop.HEADROOM] += drops[number] if drops else 0
        for _ in range(2):
            made.counters(PORT)["priority"]["tx_bytes"][3] += thousands * 500
            made.sample()
    made.phase("")
    return Recording.open(made.finished())


def days(folder: Path, *sent: Sequence[int]) -> list[Recording]:
    return [run(folder / f"day{number}", each) for number, each in enumerate(sent)]


def deviating(
    baseline: LearnedBaseline, recording: Recording, limit: float = 6.0, phase: str = ""
) -> list[BaselineDeviation]:
    return compare(baseline, recording, limit, recording.window(phase)).deviations


def observed(recording: Recording) -> WindowValues:
    return window_values(recording, recording.window("observe"), EVERY)


def found(folder: Path, sent: Sequence[int], drops: Sequence[int] = (), limit: float = 6.0) -> dict[str, Any]:
    """The deviations of the port from three normal days, by measure."""
    baseline = learn(days(folder, NORMAL, NORMAL, NORMAL), EVERY, "observe")
    listed = deviating(baseline, run(folder / "checked", sent, drops), limit, "observe")
    assert {each.of for each in listed} <= {PORT}
    return {each.measure: each for each in listed}


def test_the_normal_value_is_the_median_of_medians(tmp_path: Path) -> None:
    """Judged by Python's statistics on the rates that were made."""
    recording = run(tmp_path / "a", NORMAL)
    rates = observed(recording).of(KEY)
    assert rates.tolist() == pytest.approx([each * 80_000 for each in NORMAL])
    (known,) = [each for each in learn([recording], EVERY, "observe").ranges if each.key == KEY]
    median = statistics.median(NORMAL) * 80_000
    spread = 1.4826 * statistics.median(abs(each * 80_000 - median) for each in NORMAL)
    assert known.normal == pytest.approx(median)
    assert known.spread == pytest.approx(spread)
    assert known.unit == "bit/s"


def test_one_bad_day_changes_little_however_long_it_is(tmp_path: Path) -> None:
    good = days(tmp_path, NORMAL, NORMAL)
    bad = run(tmp_path / "bad", [3 * each for each in NORMAL * 5])
    healthy, spoilt = learn(good, EVERY, "observe"), learn([*good, bad], EVERY, "observe")
    before, after = ({each.key: each for each in it.ranges}[KEY] for it in (healthy, spoilt))
    assert after.normal == before.normal
    assert after.spread == before.spread
    assert deviating(spoilt, good[0], 6.0, "observe") == []
    assert {each.measure for each in deviating(spoilt, bad, 6.0, "observe")} == {"tx_bps"}


def test_a_day_without_the_port_does_not_count_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port was added on the third day."""
    recordings = days(tmp_path, NORMAL, NORMAL, NORMAL)
    whole = learn(recordings, EVERY, "observe")

    def windows(recording: Recording, window: RecordingPhase, every: float) -> WindowValues:
        values = window_values(recording, window, every)
        if recording is recordings[2]:
            return values
        without = {key: each for key, each in values.values.items() if key.of != PORT}
        return replace(values, objects=values.objects - {PORT}, values=without)

    monkeypatch.setattr(learned_baseline, "window_values", windows)
    assert learn(recordings, EVERY, "observe") == whole


def test_days_that_differ_are_normal(tmp_path: Path) -> None:
    """The spread between recordings counts, too."""
    steady = [[level] * 10 for level in (80, 100, 120)]
    baseline = learn(days(tmp_path, *steady), EVERY, "observe")
    (known,) = [each for each in baseline.ranges if each.key == KEY]
    assert known.spread == pytest.approx(1.4826 * 20 * 80_000)
    assert deviating(baseline, run(tmp_path / "checked", [70] * 10), 6.0, "observe") == []


def test_a_normal_day_has_no_deviation(tmp_path: Path) -> None:
    assert found(tmp_path, NORMAL[::-1]) == {}


def test_a_deviation_has_its_size_and_its_beginning(tmp_path: Path) -> None:
    it = found(tmp_path, (*NORMAL[:6], 50, 50, 50, 50))["tx_bps"]
    start = 0.6
    assert (it.windows, it.priority, it.unit) == (4, 3, "bit/s")
    assert it.since == pytest.approx(start, abs=EVERY)
    assert it.normal == pytest.approx(8_000_000)
    assert it.value == pytest.approx(4_000_000)
    assert it.deviations == pytest.approx(-4_000_000 / max(0.05 * 8_000_000, 1.4826 * 2 * 80_000))


def test_one_window_is_no_deviation_and_two_are(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert found(tmp_path / "one", (*NORMAL[:6], 50, *NORMAL[:3])) == {}
    assert found(tmp_path / "two", (*NORMAL[:6], 50, 50, *NORMAL[:2])).keys() == {"tx_bps"}


def test_one_window_is_enough_for_a_value_that_was_always_zero(tmp_path: Path) -> None:
    it = found(tmp_path, NORMAL, (0, 0, 0, 0, 7, 0, 0, 0, 0, 0))["dropped_headroom"]
    assert (it.normal, it.windows) == (0, 1)
    assert it.deviations == pytest.approx(7)  # packets: the least spread is one in a window
    (tmp_path / "few").mkdir()
    assert found(tmp_path / "few", NORMAL, (0, 0, 0, 0, 5, 0, 0, 0, 0, 0)) == {}


def test_drops_in_a_few_windows_of_all_days_are_normal(tmp_path: Path) -> None:
    """Their median is 0, and so is their median absolute deviation."""
    drops = (0, 0, 30, 30, 0, 0, 0, 0, 0, 0)
    normal = [run(tmp_path / f"day{number}", NORMAL, drops) for number in range(3)]
    baseline = learn(normal, EVERY, "observe")
    (known,) = [each for each in baseline.ranges if each.measure == "dropped_headroom"]
    assert known.normal == 0
    assert known.spread == pytest.approx(math.sqrt(math.pi / 2) * 0.2 * 300)  # packets a second
    assert deviating(baseline, normal[0], 6.0, "observe") == []
    worse = run(tmp_path / "worse", NORMAL, tuple(3 * each for each in drops))
    assert "dropped_headroom" in {each.measure for each in deviating(baseline, worse, 6.0, "observe")}


def test_the_limit_is_in_spreads(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    changed = (*NORMAL[:5], 120, 120, 120, 120, 120)
    assert found(tmp_path / "a", changed) == {}
    assert found(tmp_path / "b", changed, limit=3).keys() == {"tx_bps"}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    baseline = learn(days(tmp_path, NORMAL), EVERY)
    save(baseline, tmp_path / "baseline.json")
    assert load(tmp_path / "baseline.json") == baseline
    assert baseline.fabric == "incast"
    with pytest.raises(UsageError, match="cannot write"):
        save(baseline, tmp_path / "nosuch" / "baseline.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"every": 0}, "every: Input should be greater than 0"),
        ({"every": float("nan")}, "every: Input should be"),
        ({"ranges": [{"of": "x"}]}, "is no baseline: ranges.0."),
        ({"runs": 3}, "runs: "),
        (None, "is no baseline: the file: Invalid JSON"),
    ],
)
def test_a_file_that_is_no_baseline_is_rejected(tmp_path: Path, change: dict[str, Any] | None, said: str) -> None:
    file = tmp_path / "baseline.json"
    save(learn(days(tmp_path, NORMAL), EVERY), file)
    file.write_text("{" if change is None else json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UsageError) as caught:
        load(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_more_than_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_baseline, "_LARGEST", 10)
    (tmp_path / "large").write_text("x" * 11)
    with pytest.raises(UsageError, match="more than"):
        load(tmp_path / "large")
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "nosuch")


def test_recordings_of_different_fabrics_do_not_mix(tmp_path: Path) -> None:
    ours = run(tmp_path / "ours", NORMAL)
    other = Recording.open(plain_run(tmp_path / "plain", 1000))
    with pytest.raises(UsageError, match="the recordings are of fabrics"):
        learn([ours, other], EVERY)
    with pytest.raises(UsageError, match="and the baseline of"):
        deviating(learn([ours], EVERY), other, 6.0)


def test_ports_that_the_baseline_lacks_are_named_and_not_judged(tmp_path: Path) -> None:
    baseline = learn(days(tmp_path, NORMAL), EVERY, "observe")
    smaller = replace(baseline, objects=[each for each in baseline.objects if each != PORT], ranges=[])
    bad = run(tmp_path / "bad", [500] * 10)
    assert compare(baseline, bad, 6.0, bad.window("observe")).unknown == []
    assert compare(smaller, bad, 6.0, bad.window("observe")).unknown == [PORT]
    assert deviating(smaller, bad, 6.0, "observe") == []
    assert deviating(replace(baseline, ranges=[]), bad, 6.0, "observe") != []


def test_too_few_windows_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"windows of 1 s: .* so that there are {FEWEST} to"):
        learn([run(tmp_path / "a", NORMAL)], 1.0)
    with pytest.raises(UsageError, match="has no phase nosuch"):
        learn([run(tmp_path / "b", NORMAL)], EVERY, "nosuch")


@pytest.mark.parametrize("every", [1e-12, 1e300])
def test_a_baseline_with_impossible_windows_is_an_error(tmp_path: Path, every: float) -> None:
    recording = run(tmp_path / "a", NORMAL)
    baseline = replace(learn([recording], EVERY), every=every)
    with pytest.raises(UsageError, match="choose --every of baseline learn so that"):
        deviating(baseline, recording, 6.0)


def test_windows_without_values_are_zero(tmp_path: Path) -> None:
    values = observed(run(tmp_path / "a", NORMAL))
    absent = ValueKey("port", "leaf1:swp1", 3, "dropped_headroom")
    assert np.array_equal(values.of(absent), np.zeros(len(values.starts)))


def rocelab(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["baseline", *words])
    assert done.exit_code == code, done.output
    return done.stdout


def test_the_commands_learn_show_and_check(tmp_path: Path) -> None:
    recordings = [str(each.folder.path) for each in days(tmp_path, NORMAL, NORMAL, NORMAL)]
    bad = str(run(tmp_path / "bad", (*NORMAL[:5], 50, 50, 50, 50, 50)).folder.path)
    file, every = str(tmp_path / "b.json"), ("--every", "100ms", "--phase", "observe")
    assert "from 3 recordings" in rocelab("learn", *recordings, "-o", file, *every)
    learned = rocelab("learn", *recordings, "-o", file, *every, "--json")
    adapter("baseline learn").validate_json(learned)
    shown = rocelab("show", file, "--of", PORT, "--json")
    adapter("baseline show").validate_json(shown)
    assert {each["of"] for each in json.loads(shown)["ranges"]} == {PORT}
    assert "8 Mb/s" in rocelab("show", file)
    assert "no value deviates" in rocelab("check", recordings[0], "-b", file, "--phase", "observe")
    told = rocelab("check", bad, "-b", file, "--phase", "observe", "--json", code=1)
    adapter("baseline check").validate_json(told)
    (deviation,) = json.loads(told)["deviations"]
    assert (deviation["of"], deviation["measure"], deviation["windows"]) == (PORT, "tx_bps", 5)
    assert "tx_bps" in rocelab("check", bad, "-b", file, "--phase", "observe", code=1)


@pytest.mark.parametrize(
    "words", [("learn", "nosuch"), ("check", "nosuch"), ("show", "nosuch"), ("learn", "x", "--every", "1ms")]
)
def test_what_is_missing_is_a_usage_error(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, ["baseline", *words]).exception
    assert isinstance(error, LabError)
    assert error.exit_code == 2
