"""The data embedded in the page is complete, contains no markup, and stays small."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.cli.kit.scenario_verdict import told_of
from lab.model.load import read_topology
from lab.report import page
from lab.report.gallery import write_gallery
from lab.report.mentions import places_in
from lab.report.page import asset, embedded, filled, to_html, write_page
from lab.report.playback import _again, changes, device_rates, playback
from lab.report.run_facts import gather
from lab.report.scenario_text import ScenarioText
from lab.report.steps import steps_of
from lab.scenario import library
from lab.telemetry.read import measures
from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.series import RecordingClock, Series
from lab.telemetry.store import recording_folder as files
from tests.unit.scenario.test_judge import STEPS, TOPOLOGY, incast, storm
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

    from lab.telemetry.read.window_measure import Measure


def unfolded(flat: list[int], length: int) -> list[int]:
    """As the page's script reads it."""
    values, at, value = [0] * length, 0, 0
    for gap, grown in zip(flat[::2], flat[1::2], strict=True):
        at += gap
        value += grown
        values[at:] = [value] * (length - at)
    return values


@pytest.mark.parametrize("gauge", [False, True])
@pytest.mark.parametrize("values", [[], [7], [5, 5, 5], [0, 0, 3, 3, 9], [2**40, 2**40 + 1, 2**40 + 1]])
def test_nothing_of_a_series_is_lost(values: list[int], gauge: bool) -> None:
    series = Series(
        "x", np.arange(len(values), dtype=np.int64), np.array(values, np.uint64), RecordingClock(0, {}), gauge
    )
    expected = values if gauge else [value - values[0] for value in values]
    found = changes(series, np.arange(len(values)))
    assert unfolded(found, len(values)) == expected
    assert len(found) <= 2 * len(values)


def test_a_gauge_that_falls_is_kept() -> None:
    values = [10, 4, 4, 12, 0]
    series = Series("x", np.arange(5, dtype=np.int64), np.array(values, np.uint64), RecordingClock(0, {}), gauge=True)
    assert unfolded(changes(series, np.arange(5)), 5) == values


def played(path: Path, **more: Any) -> dict[str, Any]:
    recording = Recording.open(path)
    return playback(recording, gather(recording, told_of(path, library.OWN)), **more)


def test_pauses_are_exact(tmp_path: Path) -> None:
    making = storm(tmp_path)
    making.event(making.ns, source="port", kind="resumed", node="leaf2", interface="swp6", number=3, value=0)
    end = making.ns
    making.sample()
    found = played(making.finished())["pauses"]["leaf2:swp6"]["3"]
    first = (STEPS + 2) * STEP + 1_000_000
    assert found == [first // 1000, (end - START - first) // 1000]


def test_samples_are_left_out_only_where_it_is_long_and_told(tmp_path: Path) -> None:
    path = storm(tmp_path).finished()
    whole = played(path)
    thinned = played(path, budget=len(json.dumps(whole)) - 100)
    assert whole["every"] == 1
    assert len(whole["times"]) == len(Recording.open(path).samples["ns"])
    assert thinned["every"] > 1
    assert sum(thinned["times"]) == sum(whole["times"])
    sent = [sum(each["ports"]["leaf2:swp6"]["3"]["tx_bps"][1::2]) for each in (whole, thinned)]
    assert sent[0] == sent[1]
    assert thinned["pauses"] == whole["pauses"]


def test_a_page_of_a_minute_is_small(tmp_path: Path) -> None:
    """Every port of clos-2x4 counts something else at every sample."""
    file = tmp_path / "clos.yaml"
    shape = "{shape: leaf-spine, spines: 2, leaves: 4, hosts_per_leaf: 2}"
    file.write_text(f"name: clos\ndefaults: {{rate: 100Mbit}}\ngenerate: {shape}\nqos: pfc-ecn\n")
    topology = read_topology(file)
    making = Made(tmp_path / "run", topology)
    random = np.random.default_rng(1)
    ports = [str(end) for link in topology.links for end in link.ends]
    counters = [making.counters(port) for port in ports]
    for _ in range(1200):
        for counted, grown in zip(counters, random.integers(1, 10**6, len(counters)), strict=True):
            counted["priority"]["tx_bytes"][3] += int(grown)
            counted["queue"]["depth_bytes"][3] = int(grown)
            counted["queue"]["ecn_marked"][3] += int(grown) % 100
        making.sample()
    recording = Recording.open(making.finished())
    made = write_page(recording, gather(recording, ScenarioText()))
    assert len(made.encode()) < 8_000_000
    assert "every 2. is played" not in made


class Devices:
    """A recording of two RDMA devices, of which one has lost something."""

    devices = ("h1:eth1", "h2:eth1")

    def rdma(self, name: str) -> Devices:
        self.grows = name == "h1:eth1"
        return self

    def counts(self, measure: Measure) -> bool:
        return measure is measures.NAK_RX

    def series(self, measure: Measure) -> Series:
        values = np.array([4, 4, 7] if self.grows else [5, 5, 5], np.uint64)
        return Series(measure.name, np.arange(3, dtype=np.int64), values, RecordingClock(0, {}))


def test_what_devices_lost_is_played_and_what_they_did_not_is_left_out() -> None:
    recording: Any = Devices()
    assert dict(_again(recording, np.arange(3))) == {"h1:eth1 rcvd_seq_err": [2, 3]}


def test_the_page_shows_no_session_of_a_lost_daemon_as_up(tmp_path: Path) -> None:
    """A daemon that is killed reports none of them as down."""
    made = storm(tmp_path)
    told = {"source": "routing", "node": "leaf1"}
    made.event(START, **told, kind="bgp", interface="swp1", state="Established", before="")
    made.event(START + 3 * STEP + 1, **told, kind="daemon_lost", daemon="bgpd")
    made.event(START + 6 * STEP + 1, **told, kind="daemon_back", daemon="bgpd")
    page_data = played(made.finished())
    states = unfolded(page_data["sessions"]["leaf1:swp1 bgp"], 12)
    assert states[:8] == [1, 1, 1, 1, 0, 0, 0, 1]


def test_the_page_has_each_measure_with_its_title_and_unit_and_the_script_has_neither(tmp_path: Path) -> None:
    made = played(storm(tmp_path).finished())
    assert {name: each["title"] for name, each in made["measures"].items()} == {
        "tx_bps": "tx rate", "paused": "paused", "queue_bytes": "queue", "marked": "ECN marks/s",
        "dropped": "drops/s",
    }  # fmt: skip
    assert made["measures"]["paused"]["scale"] == 1e-6
    assert [plot["key"] for plot in made["plots"]] == [*made["measures"], "again", "sessions"]
    for lane in (lane for port in made["ports"].values() for lane in port.values()):
        assert set(lane) == set(made["measures"])
    titles = {each.title for each in measures.MEASURES} | {each.heading for each in measures.MEASURES}
    units = {suffix.strip() for unit in MeasureUnit for _, suffix in unit.steps if suffix.strip()}
    for name in page.PLAYER_SCRIPTS:
        words = set(re.findall(r"""["'`]([^"'`\n]*)["'`]""", asset(name)))
        # Classes of the style sheet, and the unit behind moments of the recording, are no measure's.
        assert not words & (titles | units) - {"queue", "paused", "s", "%"}, name
        assert not re.search(r"[kMG]b/s|[KMG]B\b", asset(name)), name


def test_json_cannot_end_its_element() -> None:
    evil = {"</script>": "<!--\u2028&", "x": [1.5, None]}
    text = embedded(evil)
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == evil


def test_what_fills_a_hole_is_not_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "asset", lambda _: "{{a}} {{b}}")
    assert filled("x", a="{{b}}", b="2") == "{{b}} 2"


def test_html_in_markdown_stays_text() -> None:
    made = to_html("| a |\n|---|\n| <b>x</b> |\n\n<script>x</script>\n\n[a](javascript:x)\n")
    assert "<b>" not in made
    assert "<script>" not in made
    assert "href" not in made
    assert '<div class="wide"><table>' in made


def test_the_plots_are_by_the_library_that_is_noted() -> None:
    lines = [line.split() for line in asset("README.md").splitlines() if re.fullmatch(r" +[0-9a-f]{64}  \S+", line)]
    noted = {name: digest for digest, name in lines}
    assert set(noted) == {"uPlot.iife.min.js", "uPlot.min.css"}
    for name, digest in noted.items():
        assert hashlib.sha256(asset(name).encode()).hexdigest() == digest
    assert "MIT License" in asset("uPlot.LICENSE")


def test_places_are_found_in_sentences() -> None:
    told = places_in(TOPOLOGY, "leaf2:swp6 stops h1, (spine1) and the link leaf1--spine2; h99 is none. At h8.")
    assert told["nodes"] == ["h1", "spine1", "h8"]
    assert told["ports"] == ["leaf2:swp6", "leaf1:swp2", "spine2:swp1"]


def test_steps_are_bound_to_what_was_recorded(tmp_path: Path) -> None:
    making = storm(tmp_path)
    at = START + (STEPS + 2) * STEP
    for ns, did in ((at, "inject"), (making.ns - 2 * STEP * STEPS, "heal")):
        files.append_line(making.folder.truth, {"ns": ns, "did": did, "kind": "pause-storm", "place": "h8"})
    path = making.finished()
    facts = gather(Recording.open(path), told_of(path, library.OWN))
    steps = steps_of(TOPOLOGY, facts)
    assert [step["word"] for step in steps][:3] == ["Given", "When", "Wave"]
    assert steps[0]["at"] == facts.phases[0].start
    assert steps[1]["at"] == pytest.approx((at - START) / 1e9)
    assert steps[2]["ports"] == ["leaf2:swp6", "spine1:swp2", "leaf1:swp1", "h1:eth1"]
    assert "spine1:swp2 after 8.0 ms" in steps[2]["text"]


def test_without_faults_whens_are_phases(tmp_path: Path) -> None:
    path = incast(tmp_path).finished()
    facts = gather(Recording.open(path), told_of(path, library.OWN))
    steps = [(step["word"], step["bound"]) for step in steps_of(TOPOLOGY, facts)]
    assert ("When", "phase alone") in steps
    assert ("When", "phase incast") in steps
    assert steps[-2:] == [("Then", "phase incast, continued"), ("And", "phase incast, continued")]


def test_a_gallery_names_every_run(tmp_path: Path) -> None:
    path = storm(tmp_path).finished()
    facts = gather(Recording.open(path), told_of(path, library.OWN))
    made = write_gallery([(facts, "a b.html"), (facts, 'x"y.html')], {"<b>": "is damaged"})
    assert 'href="a%20b.html"' in made
    assert 'href="x%22y.html"' in made
    assert "&lt;b&gt;: is damaged" in made
    assert "2 runs" in made


@pytest.mark.parametrize("hz", [20, 50])
@pytest.mark.parametrize("late", [1, 4, 8, 9.9])
def test_a_sample_that_repeats_a_devices_counters_makes_no_link_faster_than_it_is(hz: int, late: float) -> None:
    """A phase begins ``late`` ms before a sample is due: that one repeats what was read as the phase began."""
    period = 1000 / hz
    due = [number * period for number in range(20)]
    times = sorted([*due, due[7] - late, due[13] - late])
    carried, read = [], -1e9
    for time in times:
        read = time if time - read >= 10 else read
        carried.append(round(read * LINK_BYTES))
    series = Series(
        "x", np.array([time * 1e6 for time in times], np.int64), np.array(carried, np.uint64), RecordingClock(0, {})
    )
    found = device_rates(series, hz)
    assert found[0] == 0
    assert found[1:] == pytest.approx([LINK_BYTES * 1000] * (len(times) - 1), rel=0.001)


def test_a_devices_rate_follows_what_it_takes_in() -> None:
    times = np.arange(10, dtype=np.int64) * 50_000_000
    values = np.array([0, 0, 5, 10, 10, 10, 40, 70, 70, 3], np.uint64)
    series = Series("x", times, values, RecordingClock(0, {}))
    assert device_rates(series, 20.0).tolist() == [0, 0, 100, 100, 0, 0, 600, 600, 0, 0]
    assert device_rates(replace(series, ns=times[:0], values=values[:0]), 20.0).tolist() == []


LINK_BYTES = 12_500
"""In a millisecond, at 100 Mb/s."""
