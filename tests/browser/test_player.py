"""The page in a real browser: what moves, what is drawn, what is copied, and that it asks for nothing."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from lab.cli.kit.scenario_verdict import told_of
from lab.report.gallery import write_gallery
from lab.report.page import write_page
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read import measures
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.qp_rates import SCHEMA
from lab.telemetry.store import recording_folder as files
from lab.wire.pcapng import Direction, Interface, Record
from tests.browser.chromium import Tab
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.packets import ack, pause, send
from tests.unit.report.test_limits import LINE, row
from tests.unit.scenario.test_judge import STEPS, incast, storm
from tests.unit.telemetry.made import START, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.browser.chromium import Chromium
    from tests.unit.telemetry.made import Made

WAVE = ["leaf2:swp6", "spine1:swp2", "leaf1:swp1", "h1:eth1"]
FIRST = (STEPS + 1) * STEP / 1e9
"""The sample with which the phase ``inject`` begins, in seconds of the recording."""
INJECTED = FIRST + 0.001
HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=2'>"
DRAWN = "[...document.querySelectorAll('.port.paused')].map((port) => port.dataset.port)"


def page_of(folder: Path, more: Callable[[Made], None] = lambda _: None) -> Path:
    making = storm(folder)
    for ns, did in ((START + round(INJECTED * 1e9), "inject"), (making.ns - 5 * STEP, "heal")):
        files.append_line(making.folder.truth, {"ns": ns, "did": did, "kind": "pause-storm", "place": "h8"})
    more(making)
    recording = Recording.open(making.finished())
    file = folder / "page.html"
    file.write_text(write_page(recording, gather(recording, told_of(recording.folder.path, library.OWN))))
    return file


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("page"))


@pytest.fixture
def tab(browser: Chromium, page: Path) -> Iterator[Tab]:
    with_page = Tab(browser, page.as_uri())
    yield with_page
    assert with_page.complaints() == []
    with_page.close()


def now(tab: Tab) -> float:
    return float(tab.run("document.getElementById('scrub').value"))


def middle(tab: Tab, selector: str) -> tuple[float, float]:
    """Where the middle of an element is in the window, once it has been scrolled there."""
    place = tab.run(
        f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
        " it.scrollIntoView({block: 'center'});"
        " const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    return float(place[0]), float(place[1])


def click(tab: Tab, selector: str) -> None:
    tab.click(*middle(tab, selector))


def until(tab: Tab, condition: str) -> None:
    """Wait for the page, frame by frame, until something is so."""
    tab.run(
        "new Promise((done) => { const look = () => (" + condition + ") ? done() : requestAnimationFrame(look);"
        " look(); })"
    )


def scrub(tab: Tab, second: float) -> None:
    """With the mouse, on the time line."""
    left, top, width = tab.run(
        "(() => { const box = document.querySelector('.track').getBoundingClientRect();"
        " return [box.x, box.y, box.width]; })()"
    )
    seconds = tab.run("Number(document.getElementById('scrub').max)")
    tab.click(left + width * second / seconds, top + 41)


def test_it_loads_from_a_file_and_asks_for_nothing(tab: Tab, page: Path) -> None:
    assert tab.run("document.title").startswith("A pause storm")
    assert tab.requests() == [page.as_uri()]
    titles = tab.run("[...document.querySelectorAll('.plot h2')].map((it) => it.textContent)")
    assert titles == [measures.TX_RATE.heading, measures.PAUSED.heading]
    assert "Not in this run: queue, ecn marks/s, drops/s" in tab.run("document.querySelector('.none').textContent")


def test_nothing_can_be_asked_for(tab: Tab) -> None:
    """The page's own policy: not even what gets into it could phone home."""
    refused = tab.run("fetch('http://192.0.2.1/').then(() => 'asked', () => 'refused')")
    assert refused == "refused"
    complained = [said for said in tab.complaints() if "Content Security Policy" in json.dumps(said)]
    assert complained
    tab._browser.told.clear()


def test_play_moves_the_time_and_pause_stops_it(tab: Tab) -> None:
    tab.press("Home")
    assert now(tab) == 0
    click(tab, "#play")
    until(tab, "Number(document.getElementById('scrub').value) > 0.1")
    tab.press(" ", "Space") if tab.run("document.activeElement.id") != "play" else click(tab, "#play")
    stopped = now(tab)
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert now(tab) == stopped > 0.1


def with_packets_and_sessions(making: Made) -> None:
    """A session that is lost in the middle, and a capture whose sender has a name that would be markup."""
    for after, state in ((0, "Established"), (3 * STEP, "Idle")):
        told = {"source": "routing", "kind": "bgp", "node": "leaf1", "interface": "swp1"}
        making.event(START + after + 1, **told, state=state, before="")
    making.folder.captures.mkdir()
    frames = [send(7), pause({3: 0xFFFF}), ack(8, 0x60)]
    records = [
        Record(10**18 + START + number * STEP, 0, len(frame), Direction.INBOUND, frame)
        for number, frame in enumerate(frames)
    ]
    (making.folder.captures / "links.pcapng").write_bytes(pcapng(records, Interface(HOSTILE, speed=10**8)))


def test_packets_are_taken_apart_and_lead_to_their_moment(browser: Chromium, tmp_path: Path) -> None:
    tab = Tab(browser, page_of(tmp_path, with_packets_and_sessions).as_uri())
    sorts = tab.run("[...document.querySelectorAll('.packet b')].map((it) => it.textContent)")
    assert sorts == ["the first pause (PFC)", "the first NAK"]
    assert tab.run("document.querySelector('.packet details').open") is False
    click(tab, ".packet summary")
    assert tab.run("document.querySelector('.packet details').open") is True
    cells = tab.run("[...document.querySelectorAll('.packet:first-child td')].map((it) => it.textContent)")
    assert "priority_enable_vector" in cells
    click(tab, ".packet .moment")
    assert now(tab) == pytest.approx(STEP / 1e9)
    assert tab.run("window.hit") is None
    assert tab.complaints() == []
    tab.close()


def test_sessions_are_drawn_over_time(browser: Chromium, tmp_path: Path) -> None:
    tab = Tab(browser, page_of(tmp_path, with_packets_and_sessions).as_uri())
    plot = "[...document.querySelectorAll('.plot')].find((it) => it.querySelector('h2').textContent === 'Sessions')"
    assert tab.run(f"{plot}.querySelector('.caption p').textContent") == "sessions that are up"
    shown = f"{plot}.querySelectorAll('.u-value')[1].textContent"
    for second, up in ((0.0, "1"), (4 * STEP / 1e9, "0")):
        scrub(tab, second + 0.001)
        until(tab, f"{shown} === '{up}'")
    assert tab.complaints() == []
    tab.close()


def test_rate_limits_are_drawn_of_all_nics_or_the_chosen_one(browser: Chromium, tmp_path: Path) -> None:
    def more(making: Made) -> None:
        making.log.rows(SCHEMA, START + 2 * STEP, [row("h1", LINE // 2, 1), row("h2", LINE // 5, 1)])

    tab = Tab(browser, page_of(tmp_path, more).as_uri())
    titled = "it.querySelector('h2').textContent === 'QP rate limits'"
    plot = f"[...document.querySelectorAll('.plot')].find((it) => {titled})"
    names = f"[...{plot}.querySelectorAll('.u-label')].map((it) => it.textContent)"
    assert tab.run(names) == ["s", "h2:eth1 QP 0x11 to 10.0.0.4", "h1:eth1 QP 0x11 to 10.0.0.4"]
    for second, rate in ((0.0, "100 Mb/s"), (4 * STEP / 1e9, "20 Mb/s")):
        scrub(tab, second + 0.001)
        until(tab, f"{plot}.querySelectorAll('.u-value')[1].textContent === '{rate}'")
    click(tab, '[data-port="h1:eth1"] .dot')
    assert tab.run(names) == ["s", "h1:eth1 QP 0x11 to 10.0.0.4"]
    assert tab.complaints() == []
    tab.close()


RATIO = """new Promise((done) => {
    const select = document.getElementById('speed'), scrub = document.getElementById('scrub');
    select.value = 'SPEED';
    select.dispatchEvent(new Event('change'));
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'}));
    document.getElementById('play').click();
    requestAnimationFrame((first) => {
        const from = Number(scrub.value);
        const look = (at) => {
            if (at - first < 300) return requestAnimationFrame(look);
            document.getElementById('play').click();
            done((Number(scrub.value) - from) / (at - first) * 1000);
        };
        requestAnimationFrame(look);
    });
})"""
"""Seconds of the recording that are played in a second, by the page's own clock, which no load can change."""


@pytest.mark.parametrize("speed", [0.5, 4])
def test_speed_is_how_fast_it_plays(tab: Tab, speed: float) -> None:
    assert tab.run(RATIO.replace("SPEED", str(speed))) == pytest.approx(speed, rel=0.1)


def test_scrubbing_changes_the_drawing(tab: Tab) -> None:
    scrub(tab, 1.0)
    assert now(tab) == pytest.approx(1.0, abs=0.02)
    assert tab.run(DRAWN) == []
    healthy = tab.run("document.querySelector('#fabric svg').innerHTML")
    scrub(tab, FIRST + 1)
    assert sorted(tab.run(DRAWN)) == sorted(WAVE)
    assert tab.run("document.querySelector('#fabric svg').innerHTML") != healthy
    assert tab.run("document.querySelectorAll('.halo.on').length") == 1
    assert "pause-storm h8" in tab.run("document.getElementById('moment-line').textContent")


def test_the_wave_travels_hop_by_hop(tab: Tab) -> None:
    """The storm of the test reaches its hops 1, 9, 20 and 35 ms after the phase began."""
    reached = []
    for after in (0.0005, 0.005, 0.015, 0.03, 0.04):
        tab.run(f"(() => {{ const it = document.getElementById('scrub'); it.value = {FIRST + STEP / 1e9 + after};"
                " it.dispatchEvent(new Event('input')); })()")  # fmt: skip
        reached.append(sorted(tab.run(DRAWN)))
    assert reached == [sorted(WAVE[:number]) for number in range(5)]
    assert tab.run("[...document.querySelectorAll('.port.stopped .order')].map((it) => it.textContent).sort()") == [
        "1", "2", "3", "4",
    ]  # fmt: skip


def test_a_step_is_a_sample_and_an_event_an_event(tab: Tab) -> None:
    tab.press("Home")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert now(tab) == pytest.approx(2 * STEP / 1e9)
    tab.press("ArrowLeft")
    assert now(tab) == pytest.approx(STEP / 1e9)
    tab.press("End")
    assert now(tab) == tab.run("Number(document.getElementById('scrub').max)")
    scrub(tab, 1.0)
    tab.press(".")
    assert now(tab) == pytest.approx(FIRST)  # phase inject
    tab.press(".")
    assert now(tab) == pytest.approx(INJECTED)
    tab.press(",")
    assert now(tab) == pytest.approx(FIRST)


def test_steps_of_the_story_move_the_time(tab: Tab) -> None:
    words = tab.run("[...document.querySelectorAll('.step b')].map((it) => it.textContent)")
    assert words == ["Given", "When", "Wave", "Then", "And", "When", "Then"]
    click(tab, ".stage li:nth-child(2) .step")
    assert now(tab) == pytest.approx(INJECTED)
    assert tab.run("document.querySelector('.step[aria-current]').textContent").startswith("When")
    assert tab.run("document.querySelectorAll('.halo.told').length") == 1
    tab.press("n")
    assert tab.run("document.querySelector('.step[aria-current]').textContent").startswith("Wave")
    assert tab.run("document.getElementById('speed').value") == "0.02"


def test_copy_copies(tab: Tab) -> None:
    tab._browser.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    click(tab, ".copy")
    until(tab, "document.querySelector('.copy').textContent === 'copied'")
    tab.run("document.body.focus()")
    assert tab.run("navigator.clipboard.readText()") == "rocelab scenario run pfc-storm"


def test_a_port_shows_its_own(tab: Tab) -> None:
    scrub(tab, 1.0)
    click(tab, '[data-port="leaf2:swp6"] .dot')
    assert tab.run("document.querySelector('#inspector h3').textContent") == "leaf2:swp6"
    cells = tab.run("[...document.querySelectorAll('#inspector td')].map((it) => it.textContent)")
    assert cells[:3] == ["3", "100 Mb/s", "0%"]
    assert "priority 3" in tab.run("document.querySelector('.u-legend').textContent")
    tab.press("Escape")
    assert tab.run("document.getElementById('inspector').hidden")


def test_a_click_into_a_plot_moves_the_time(tab: Tab) -> None:
    scrub(tab, 1.0)
    click(tab, ".plot .u-over")
    assert now(tab) == pytest.approx(tab.run("Number(document.getElementById('scrub').max)") / 2, rel=0.02)


@pytest.mark.parametrize(("motion", "dots"), [("no-preference", True), ("reduce", False)])
def test_motion_is_reduced_for_those_who_ask(browser: Chromium, page: Path, motion: str, dots: bool) -> None:
    tab = Tab(browser, page.as_uri(), prefers_reduced_motion=motion)
    tab.run(
        "window.dots = 0; new MutationObserver((all) => { for (const each of all) for (const node of each.addedNodes)"
        " if (node.classList && node.classList.contains('xoff')) window.dots++; })"
        ".observe(document.querySelector('#fabric'), {subtree: true, childList: true}); 0"
    )
    tab.press("p")
    tab.run("[...document.querySelectorAll('.step')].find((it) => it.textContent.startsWith('Wave')).click()")
    tab.press("k")
    until(tab, f"Number(document.getElementById('scrub').value) > {FIRST + STEP / 1e9 + 0.036}")
    assert bool(tab.run("window.dots")) == dots
    tab.close()


def test_light_dark_phone_and_paper(browser: Chromium, page: Path) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        tab = Tab(browser, page.as_uri(), 390, 800, prefers_color_scheme=scheme)
        grounds.append(tab.run("getComputedStyle(document.body).backgroundColor"))
        assert tab.run("document.documentElement.scrollWidth") <= 390
        tab.close()
    assert grounds[0] != grounds[1]
    tab = Tab(browser, page.as_uri())
    assert base64.b64decode(tab.ask("Page.printToPDF")["data"]).startswith(b"%PDF")
    tab.emulate("print")
    shown = "getComputedStyle(document.querySelector({})).display"
    assert tab.run(shown.format("'.transport'")) == "none"
    assert tab.run(shown.format("'.rca'")) == "block"
    tab.close()


def test_a_run_that_nobody_tells_of_is_played_too(browser: Chromium, tmp_path: Path) -> None:
    making = incast(tmp_path)
    files.write_json(making.folder.facts("params"), {})
    recording = Recording.open(making.finished())
    file = tmp_path / "page.html"
    file.write_text(write_page(recording, gather(recording, told_of(recording.folder.path, library.OWN))))
    tab = Tab(browser, file.as_uri())
    assert "No scenario tells" in tab.run("document.getElementById('steps').textContent")
    scrub(tab, 1.0)
    assert now(tab) == pytest.approx(1.0, abs=0.02)
    assert tab.complaints() == []
    tab.close()


def hostile(making: Made) -> None:
    name = HOSTILE
    files.append_line(making.folder.notes, {"ns": making.sample(), "kind": "phase", "name": name})
    files.append_line(making.folder.truth, {"ns": START, "did": "inject", "kind": name, "place": name})
    files.append_line(
        making.folder.commands,
        {
            "ns": START,
            "end_ns": START,
            "node": name,
            "argv": [name],
            "exit_code": 1,
            "stdout": name,
            "stderr": "\u2028",
        },
    )
    making.about["fabric"] = name
    making.event(START, source="routing", kind=name, node=name, interface=name, before=name)


def test_what_a_recording_says_is_never_run(browser: Chromium, tmp_path: Path) -> None:
    file = page_of(tmp_path, hostile)
    tab = Tab(browser, file.as_uri())
    for _ in range(3):
        tab.press("n")
    assert tab.run("window.hit") is None
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("document.querySelectorAll('script').length") == 2
    assert HOSTILE in tab.run("document.getElementById('commands').textContent")
    assert HOSTILE in tab.run("document.getElementById('bands').textContent")
    assert HOSTILE in tab.run("document.querySelector('.rca').textContent")
    assert (tab.complaints(), tab.requests()) == ([], [file.as_uri()])
    tab.close()


def test_a_gallery_leads_to_its_runs(browser: Chromium, page: Path, tmp_path: Path) -> None:
    recording = Recording.open(page.parent / "run")
    facts = gather(recording, told_of(recording.folder.path, library.OWN))
    target = tmp_path / "a run #1.html"
    target.write_text(page.read_text())
    (tmp_path / "index.html").write_text(write_gallery([(facts, target.name)], {HOSTILE: HOSTILE}))
    tab = Tab(browser, (tmp_path / "index.html").as_uri())
    assert HOSTILE in tab.run("document.querySelector('.unread').textContent")
    assert (tab.complaints(), tab.run("window.hit")) == ([], None)
    where: Any = tab.run("document.querySelector('.card').href")
    assert where == target.as_uri()
    tab.close()
