"""The text of a scrape, judged by promtool and by the parsers of prometheus_client."""

from __future__ import annotations

import subprocess
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older

from lab.cli.machine.docs import PAGES
from lab.telemetry.metrics.counter_metrics import MetricSamples
from lab.telemetry.metrics.exposition import render
from lab.telemetry.metrics.live_metrics import MetricLedger
from lab.telemetry.metrics.metric_families import BGP_RECEIVED, BGP_STATE, FAMILIES, MetricFamily
from lab.telemetry.metrics.metrics_format import MetricsFormat

open_metrics: Any = text_string_to_metric_families
HOSTILE = 'a"b\\c\nd'


def every_family() -> list[MetricSamples]:
    """A sample of each, with labels that need escapes."""
    return [MetricSamples(each, [tuple(HOSTILE for _ in each.label_names)], [7]) for each in FAMILIES]


def test_promtool_finds_nothing_to_complain_about() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=render(every_family(), MetricsFormat.TEXT),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_complains_about_a_counter_without_its_suffix() -> None:
    text = b"# HELP a_seconds a.\n# TYPE a_seconds counter\na_seconds 1\n"
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=60)
    assert done.returncode == 3


def test_both_formats_say_the_same() -> None:
    scrape = every_family()
    new, old = render(scrape).decode(), render(scrape, MetricsFormat.TEXT).decode()
    found = [
        {each.name: (each.value, set(each.labels.values())) for family in families for each in family.samples}
        for families in (open_metrics(new), older(old))
    ]
    assert found[0] == found[1] == {each.name: (7, {HOSTILE}) for each in FAMILIES}
    assert [family.unit for family in open_metrics(new)] == [each.unit for each in FAMILIES]


def test_large_counters_stay_exact() -> None:
    family = next(each for each in FAMILIES if each.name == "sonic_queue_bytes_total")
    text = render([MetricSamples(family, [("leaf1", "swp1", "3")], [2**53 - 1])]).decode()
    ((sample,),) = [each.samples for each in open_metrics(text)]
    assert sample.value == 2**53 - 1


def test_the_page_has_a_row_for_each_family() -> None:
    page = (PAGES / "metrics.md").read_text(encoding="utf-8")
    for each in FAMILIES:
        row = f"| `{each.name}` | {each.kind.value} | {each.unit} | {each.exporter} | {each.owner.value} |"
        assert f"{row} {each.behind} |" in page
    assert page.count("\n| `") == len(FAMILIES)


def ledger(family: MetricFamily, *values: float) -> list[float]:
    """What it makes of the values of one series, one scrape after the other."""
    kept = MetricLedger()
    return [kept.grown(MetricSamples(family, [("leaf1",)], [value])).values[0] for value in values]


def test_counters_never_fall() -> None:
    """A pause that was read during its renewal is too long once; a daemon begins again at 0; gauges may fall."""
    pauses = next(each for each in FAMILIES if each.name == "rdma_roce_pfc_pause_duration_total")
    assert ledger(pauses, 10, 7, 9, 12) == [10, 10, 10, 12]
    assert ledger(BGP_RECEIVED, 10, 3, 4, 1) == [10, 13, 14, 15]
    assert ledger(BGP_STATE, 1, 0, 1) == [1, 0, 1]
