"""Jobs in the player: a row for each rank or requesting host, stragglers, and clicks that move the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.kit.scenario_verdict import told_of
from lab.report.page import write_page
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from tests.browser.chromium import Tab
from tests.browser.test_player import click, now, scrub, until
from tests.unit.telemetry.jobs.made_job import COMPUTE, PERIOD, job_run, steps
from tests.unit.telemetry.jobs.made_requests import request_run, requests
from tests.unit.telemetry.made import START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.chromium import Chromium

FIRST = 0.1
"""Seconds at which the first step begins."""
LINE = "document.querySelector('#jobs .caption p').textContent"


def test_a_job_has_a_row_for_each_rank_and_marks_its_straggler(browser: Chromium, tmp_path: Path) -> None:
    recording = Recording.open(job_run(tmp_path / "run", steps([60, 90, 60], {2: 40})).finished())
    assert recording.clock.start == START
    file = tmp_path / "page.html"
    file.write_text(write_page(recording, gather(recording, told_of(recording.folder.path, library.OWN))))
    for width, scheme in ((1400, "light"), (1400, "dark"), (390, "light")):
        tab = Tab(browser, file.as_uri(), width, 900, prefers_color_scheme=scheme)
        assert tab.run("[...document.querySelectorAll('.rank-name')].map((it) => it.textContent)") == [
            "0 h1:eth1", "1 h2:eth1", "2 h5:eth1", "3 h6:eth1"
        ]  # fmt: skip
        late = (
            "[...document.querySelectorAll('.rank-lane')].map((it) => it.querySelectorAll('.rank-step.late').length)"
        )
        assert tab.run(late) == [0, 0, 3, 0]
        assert tab.run("document.documentElement.scrollWidth") <= width
        scrub(tab, FIRST + PERIOD / 1000 + 0.05)
        until(tab, f"{LINE} === 'step 2: 0.230 s, straggler rank 2, 40.0 ms late'")
        click(tab, ".rank-lane .rank-step:nth-child(3)")
        assert abs(now(tab) - FIRST - 2 * PERIOD / 1000) < 0.001
        share = "document.querySelector('.rank-step .compute').style.width"
        assert abs(float(tab.run(share).rstrip("%")) - COMPUTE / 2) < 0.1  # 100 of 200 ms
        assert tab.complaints() == []
        tab.close()


def test_a_transfer_has_a_row_for_each_host_and_a_bar_for_each_request(browser: Chromium, tmp_path: Path) -> None:
    recording = Recording.open(request_run(tmp_path / "run", requests([50, 60])).finished())
    file = tmp_path / "page.html"
    file.write_text(write_page(recording, gather(recording, told_of(recording.folder.path, library.OWN))))
    for width in (1400, 390):
        tab = Tab(browser, file.as_uri(), width, 900)
        assert tab.run("[...document.querySelectorAll('.rank-name')].map((it) => it.textContent)") == [
            "h1:eth1", "h2:eth1"
        ]  # fmt: skip
        bars = "[...document.querySelectorAll('.rank-lane')].map((it) => it.querySelectorAll('.rank-step').length)"
        assert tab.run(bars) == [2, 2]
        assert tab.run("document.documentElement.scrollWidth") <= width
        scrub(tab, FIRST + 0.052)
        until(tab, f"{LINE} === '1 complete, 2 under way'")
        click(tab, ".rank-lane .rank-step:nth-child(2)")
        assert abs(now(tab) - FIRST - 0.05) < 0.001
        assert tab.complaints() == []
        tab.close()
