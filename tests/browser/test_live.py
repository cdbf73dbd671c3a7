"""The live page in a real browser: it grows while it is open, rewinds, and says what became of the fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.model.load import read_topology
from lab.report.page import asset
from lab.scenario import library
from lab.telemetry.loopback_server import LOOPBACK
from lab.telemetry.read.measures import RDMA_RX_RATE, TX_RATE
from lab.telemetry.sample import queue_pairs
from lab.telemetry.sample.qp_rates import SCHEMA
from tests.browser.chromium import Tab
from tests.browser.test_player import DRAWN, HOSTILE, click, now, scrub, until
from tests.patience import until as await_state
from tests.unit.live.served import Live, serving
from tests.unit.report.test_limits import row
from tests.unit.scenario.test_judge import LINK
from tests.unit.telemetry.made import RDMA, STEP, Made
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.chromium import Chromium

TOPOLOGY = read_topology(library.OWN.parent / "topologies" / "clos-2x4.yaml")
TEXT = "document.getElementById('{}').textContent"
SECOND = 10**9 // STEP
"""Samples in a second."""


class Running:
    """A fabric that sends, and the page that shows it."""

    def __init__(self, live: Live, made: Made) -> None:
        self.live, self.made = live, made

    def move(self, samples: int) -> None:
        """h1 sends at the link's rate of 100 Mb/s while a queue of leaf1 fills."""
        for number in range(samples):
            self.made.counters("h1:eth1")["priority"]["tx_bytes"][3] += LINK
            self.made.counters("leaf1:swp1")["queue"]["depth_bytes"][3] = 1000 * number
            self.made.sample()
        self.live.take(self.made)

    def event(self, **told: Any) -> None:
        """An event at the time of the next sample."""
        self.made.event(self.made.ns, **told)

    def pause(self, port: str, kind: str = "paused") -> None:
        """A port is paused in priority 3, or resumes."""
        node, _, interface = port.partition(":")
        self.event(source="port", kind=kind, node=node, interface=interface, number=3, value=1)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(TOPOLOGY) as live:
        running = Running(live, Made(tmp_path / "run", TOPOLOGY))
        running.move(2)
        yield running


@pytest.fixture
def tab(browser: Chromium, running: Running) -> Iterator[Tab]:
    shown = Tab(browser, running.live.server.url)
    until(shown, f"{TEXT.format('state')} === 'live'")
    yield shown
    assert shown.complaints() == []
    shown.close()


def grown(tab: Tab, seconds: float) -> None:
    """Wait until the page has drawn the samples of so many seconds since it was opened."""
    until(tab, f"Number(document.getElementById('scrub').max) >= {seconds - 1e-6}")


def test_it_follows_the_fabric(tab: Tab, running: Running) -> None:
    running.pause("h1:eth1")
    running.move(2 * SECOND)
    grown(tab, 2.0)
    assert now(tab) == pytest.approx(1.7)
    assert tab.run(DRAWN) == ["h1:eth1"]
    assert tab.run("document.querySelector('#now-pauses tbody').textContent").startswith("leaf1:swp3h1:eth13100%")
    until(tab, "[...document.querySelectorAll('.plot h2')].some((it) => it.textContent === 'Queue')")
    running.pause("h1:eth1", "resumed")
    running.move(2 * SECOND)
    grown(tab, 4.0)
    assert tab.run(DRAWN) == []
    assert now(tab) == pytest.approx(3.7)
    click(tab, '[data-port="h1:eth1"] .dot')
    cells = tab.run("[...document.querySelectorAll('#inspector td')].map((it) => it.textContent)")
    assert cells[:2] == ["3", "100 Mb/s"]


def test_it_rewinds_and_comes_back(tab: Tab, running: Running) -> None:
    running.move(SECOND)
    running.pause("h1:eth1")
    running.move(SECOND)
    running.pause("h1:eth1", "resumed")
    running.move(2 * SECOND)
    grown(tab, 4.0)
    scrub(tab, 1.5)
    assert tab.run(TEXT.format("state")) == "rewound: back to live"
    assert tab.run(DRAWN) == ["h1:eth1"]
    moment = now(tab)
    running.move(SECOND)
    grown(tab, 5.0)
    assert now(tab) == moment
    tab.press("End")
    assert now(tab) == pytest.approx(4.7)
    tab.press("Home")
    assert now(tab) == 0
    click(tab, "#state")
    running.move(SECOND)
    grown(tab, 6.0)
    assert now(tab) == pytest.approx(5.7)
    tab.press("k")
    running.move(SECOND)
    grown(tab, 7.0)
    assert now(tab) == pytest.approx(5.7)
    tab.press("k")  # plays until it has caught up
    until(tab, f"{TEXT.format('state')} === 'live'")


def test_sessions_queue_pairs_and_commands(tab: Tab, running: Running) -> None:
    for port, state, before in (
        ("swp1", "Established", ""),
        ("swp2", "Established", ""),
        ("swp1", "Idle", "Established"),
    ):
        running.event(source="routing", kind="bgp", node="leaf1", interface=port, state=state, before=before)
        running.move(SECOND)
    running.made.log.rows(queue_pairs.SCHEMA, running.made.ns, [queue_pair(17, "RTS"), queue_pair(18, "RTS")])
    running.made.log.rows(SCHEMA, running.made.ns, [row("h1", 50_000_000, 3)])
    running.event(
        source="command", kind="command", node="", began=running.made.ns - STEP, argv=["rocelab", HOSTILE], code=1,
        output=HOSTILE,
    )  # fmt: skip
    running.move(SECOND)
    grown(tab, 4.0)
    assert tab.run(TEXT.format("now-sessions")) == "BGP: 1 of 2 upsessionprotocolstateleaf1:swp1BGPdown"
    cells = tab.run("[...document.querySelectorAll('#now-qps td')].map((it) => it.textContent)")
    assert cells == [
        "h1:eth1",
        "0x11",
        "0x12",
        "ib_write_bw",
        "50 Mb/s",
        "h1:eth1",
        "0x12",
        "0x12",
        "ib_write_bw",
        "",
    ]
    assert "leaf1:swp1 BGP session: Established to Idle" in tab.run(TEXT.format("steps"))
    assert HOSTILE in tab.run(TEXT.format("commands"))
    assert tab.run("window.hit") is None
    scrub(tab, 1.0)
    assert tab.run(TEXT.format("now-sessions")).startswith("BGP: 2 of 2 up")
    assert "no queue pair" in tab.run(TEXT.format("now-qps"))


def test_a_link_that_is_down_is_drawn_until_it_is_up(tab: Tab, running: Running) -> None:
    running.move(SECOND)
    running.made.link("leaf1:swp1", up=False)
    running.move(SECOND)
    grown(tab, 2.0)
    down = "[...document.querySelectorAll('.port.down')].map((it) => it.dataset.port)"
    assert tab.run(down) == ["leaf1:swp1"]
    assert "link down" in tab.run("document.querySelector('.legend').textContent")
    assert "leaf1:swp1 is down" in tab.run(TEXT.format("steps"))
    scrub(tab, 0.5)
    assert tab.run(down) == []
    tab.press("End")
    assert tab.run(down) == ["leaf1:swp1"]
    late = Tab(tab._browser, running.live.server.url)
    until(late, f"{TEXT.format('state')} === 'live'")
    running.made.link("leaf1:swp1", up=True)
    running.move(SECOND)
    grown(late, 1.0)  # the first tab is in the background: its frames are not drawn
    assert late.run(down) == []
    late.press("Home")
    assert late.run(down) == ["leaf1:swp1"]
    late.close()


def test_rates_that_nics_receive_have_their_own_title(browser: Chromium, tmp_path: Path) -> None:
    """They take the place of the rates that ports send."""
    with serving(TOPOLOGY) as live:
        running = Running(live, Made(tmp_path / "run", TOPOLOGY, hosts=("h4",)))
        running.move(2)
        tab = Tab(browser, live.server.url)
        until(tab, f"{TEXT.format('state')} === 'live'")
        for _ in range(SECOND):
            running.made.devices[0, RDMA.index("rcvd_bytes")] += LINK
            running.move(1)
        titles = "[...document.querySelectorAll('.plot h2')].map((it) => it.textContent)"
        until(tab, f"{titles}.includes('{RDMA_RX_RATE.heading}')")
        assert TX_RATE.heading not in tab.run(titles)
        tab.close()


def test_after_a_gap_the_past_remains_and_what_lasts_goes_on(tab: Tab, running: Running) -> None:
    """1200 samples at once are more than the server keeps: the page goes on from the current state."""
    running.pause("h1:eth1")
    running.made.log.rows(queue_pairs.SCHEMA, running.made.ns, [queue_pair(17, "RTS"), queue_pair(18, "RTS")])
    running.move(2 * SECOND)
    grown(tab, 2.0)
    running.made.log.rows(queue_pairs.SCHEMA, running.made.ns, [queue_pair(18, "gone")])
    running.move(60 * SECOND)
    grown(tab, 62.0)
    running.move(SECOND)
    grown(tab, 63.0)
    pairs = "[...document.querySelectorAll('#now-qps tbody tr')].length"
    assert (tab.run(DRAWN), tab.run(pairs)) == (["h1:eth1"], 1)
    tab.press("Home")
    tab.press("ArrowRight")
    assert (tab.run(DRAWN), tab.run(pairs)) == (["h1:eth1"], 2)


def test_the_most_limited_queue_pairs_are_drawn(tab: Tab, running: Running) -> None:
    """Not those that were limited first."""
    for number in range(1, 10):
        running.made.log.rows(SCHEMA, running.made.ns, [{**row("h1", 10_000_000 * (10 - number), 3), "qpn": number}])
    running.move(2 * SECOND)
    until(tab, "[...document.querySelectorAll('.u-label')].some((it) => it.textContent.includes('QP 0x9 '))")
    labels = tab.run("[...document.querySelectorAll('.u-label')].map((it) => it.textContent)")
    assert [label.split()[2] for label in labels if " QP " in label] == [f"{number:#x}" for number in range(9, 3, -1)]


def test_queue_pairs_outlive_many_short_ones(tab: Tab, running: Running) -> None:
    running.made.log.rows(queue_pairs.SCHEMA, running.made.ns, [queue_pair(17, "RTS")])
    running.move(1)
    for number in range(1, 31):
        short = [queue_pair(1000 * number + each, state) for each in range(100) for state in ("RTS", "gone")]
        running.made.log.rows(queue_pairs.SCHEMA, running.made.ns, short)
        running.move(1)
    running.move(SECOND)
    grown(tab, (31 + SECOND) / SECOND)
    assert tab.run("document.querySelector('#now-qps tbody').textContent") == "h1:eth10x110x12ib_write_bw"


def test_a_zoom_lasts_while_samples_arrive(tab: Tab, running: Running) -> None:
    running.move(4 * SECOND)
    until(tab, f"{TEXT.format('kept')}.includes('4 s ago')")  # also in the plots
    left, top, width = tab.run(
        "(() => { const it = document.querySelector('.u-over'); it.scrollIntoView({block: 'center'});"
        " const box = it.getBoundingClientRect(); return [box.x, box.y + box.height / 2, box.width]; })()"
    )
    for kind, part in (("mousePressed", 0.25), ("mouseMoved", 0.5), ("mouseReleased", 0.5)):
        tab.ask(
            "Input.dispatchMouseEvent",
            type=kind,
            x=left + part * width,
            y=top,
            button="left",
            buttons=1,
            clickCount=1,
        )
    hidden = "[...document.querySelectorAll('.playhead')].every((it) => it.hidden)"
    until(tab, hidden)  # the present is not in the part that plots show
    running.move(2 * SECOND)
    until(tab, f"{TEXT.format('kept')}.includes('6 s ago')")
    assert tab.run(hidden)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            tab.ask("Input.dispatchMouseEvent", type=kind, x=left + 9, y=top, button="left", clickCount=count)
    until(tab, f"!({hidden})")


def test_a_recording_is_started_and_stopped(tab: Tab, running: Running) -> None:
    running.move(1)
    ring, server = running.live.ring, running.live
    until(tab, "!document.getElementById('record').disabled")
    click(tab, "#record")
    assert server.acted.wait(10)
    ring.tell(recording={"state": "recording", "name": "clos-1", "line": ""})
    until(tab, f"{TEXT.format('record-state')} === 'recording clos-1'")
    click(tab, "#record")
    await_state(lambda: server.acts == ["start", "stop"])
    ring.tell(recording={"state": "", "name": "clos-1", "line": "saved: rocelab report clos-1"})
    until(tab, f"{TEXT.format('record-state')} === 'saved: rocelab report clos-1'")


ITEMS = "[...document.querySelectorAll('#steps li')].map((it) => it.textContent)"


def test_a_fast_job_leaves_other_events_and_says_how_many_are_missing(tab: Tab, running: Running) -> None:
    """Its steps are dropped before a session that changed at the beginning."""
    running.event(source="routing", kind="bgp", node="leaf1", interface="swp1", state="Idle", before="Established")
    running.move(1)
    assert tab.run("document.getElementById('unlisted').hidden")
    for sample in range(20):
        for number in range(20):
            step = 20 * sample + number
            running.event(
                source="job", kind="step", job="fast", rank=0, node="h1", interface="eth1", step=step,
                compute=1000, communication=1000,
            )  # fmt: skip
        running.event(source="recorder", kind="news_lost", number=0)
        running.move(1)
    running.move(SECOND)
    until(tab, f"{TEXT.format('unlisted')} !== ''")
    until(tab, f"{TEXT.format('unlisted')}.startsWith('200 events are not listed')")
    assert "The kernel dropped news 20 times" in tab.run(TEXT.format("unlisted"))
    items = tab.run(ITEMS)
    assert sum("of rank 0" in each for each in items) == 200
    assert sum("Established to Idle" in each for each in items) == 1
    assert any("step 399 of rank 0" in each for each in items)
    assert not any("step 199 of rank 0" in each for each in items)


def test_memory_is_bounded_and_the_past_remains(browser: Chromium, running: Running) -> None:
    """With room for 600 samples: the oldest are thinned out, counters and the whole time remain."""
    page, policy = running.live.server._page
    small = page.replace(b"MOST_SAMPLES = 12000", b"MOST_SAMPLES = 600")
    assert small != page
    running.live.server._page = (
        small,
        policy.replace("script-src ", "script-src 'unsafe-inline' ").replace("'sha256-", "'x"),
    )
    tab = Tab(browser, running.live.server.url)
    until(tab, f"{TEXT.format('state')} === 'live'")
    for number in range(1, 11):
        running.move(9 * SECOND)
        grown(tab, 9.0 * number)
    steps = 0
    tab.press("Home")
    until(tab, f"{TEXT.format('kept')}.includes('thinned out')")
    last = -1.0
    while (moment := now(tab)) > last and moment < 80:
        last, steps = moment, steps + 1
        tab.press("ArrowRight")
    assert 50 < steps < 600
    click(tab, '[data-port="h1:eth1"] .dot')
    assert tab.run("document.querySelectorAll('#inspector td')[1].textContent") == "100 Mb/s"
    tab.close()


def test_a_fabric_that_goes_down_is_reported_and_can_still_be_rewound(tab: Tab, running: Running) -> None:
    running.move(2 * SECOND)
    grown(tab, 2.0)
    running.live.server.end("The fabric was taken down")
    until(tab, f"{TEXT.format('state')} === 'ended'")
    assert tab.run(TEXT.format("trouble")).startswith("The fabric was taken down. What was seen")
    scrub(tab, 1.0)
    assert now(tab) == pytest.approx(1.0, abs=0.02)
    assert tab.run("document.getElementById('record').disabled")


def test_the_token_leaves_the_address_and_reloading_needs_none(tab: Tab, running: Running) -> None:
    own = f"http://{LOOPBACK}:{running.live.server.port}"
    assert tab.run("location.href") == f"{own}/"
    assert tab.run("document.cookie") == ""
    tab.ask("Page.reload")
    tab._browser.await_told("Page.loadEventFired")
    running.move(1)
    until(tab, f"{TEXT.format('state')} === 'live'")
    assert {url.partition("?")[0] for url in tab.requests()} <= {f"{own}/", f"{own}/updates"}


def test_another_browser_sees_nothing(browser: Chromium, running: Running) -> None:
    tab = Tab(browser, f"http://{LOOPBACK}:{running.live.server.port}/?token=wrong")
    assert tab.run("document.body.textContent") == "Open the URL that rocelab live prints: it is valid once.\n"
    tab.close()


def test_light_dark_and_phone(browser: Chromium, running: Running) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        running.move(SECOND)
        tab = Tab(browser, running.live.server.url, 390, 800, prefers_color_scheme=scheme)
        until(tab, f"{TEXT.format('state')} === 'live'")
        grounds.append(tab.run("getComputedStyle(document.body).backgroundColor"))
        assert tab.run("document.documentElement.scrollWidth") <= 390
        tab.close()
    assert grounds[0] != grounds[1]


def test_its_scripts_name_no_measure() -> None:
    """Titles come from the registry of measures, as in the report."""
    assert "ECN marks" not in asset("live.js") + asset("live_now.js")
