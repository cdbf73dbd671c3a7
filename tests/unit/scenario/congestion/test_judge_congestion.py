"""Scenarios of congestion control, judged: each check has a recording that it passes, fails, and cannot tell of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.scenario.played import Act, Acts, Change, failing, judging, outcomes, play

if TYPE_CHECKING:
    from pathlib import Path

HANDLED = {f"{host}:eth1": {"rp_cnp_handled": 20, "tx_bytes": 300_000} for host in ("h1", "h2", "h3")}
GOOD_ACT = Act({**HANDLED, "h4:eth1": {"np_cnp_sent": 60}, "leaf1:swp5": {"marked": 900, "depth": 20_000}})
RULES = "ip dscp cs6 udp dport 4791 counter packets {} bytes 0 drop\nip6 dscp cs6 udp dport 4791 counter packets 0"
PAUSES = {f"leaf1:swp{number}": {"tx_pause": 12} for number in (2, 3, 4)}


def filtered(hits: int) -> Act:
    counted = {**PAUSES, "h4:eth1": {"np_cnp_sent": 300}, "leaf1:swp5": {"marked": 3000, "depth": 200_000}}
    return Act(counted, [("leaf1", "nft list ruleset", RULES.format(hits), 0)])


UNANSWERED = Act({**PAUSES, "leaf1:swp5": {"marked": 3000, "depth": 200_000}})
GREEDY = Act({
    "h1:eth1": {"rp_cnp_handled": 50, "tx_bytes": 20_000}, "h2:eth1": {"rp_cnp_handled": 50, "tx_bytes": 20_000},
    "h3:eth1": {"rp_cnp_ignored": 60, "tx_bytes": 860_000}, "h4:eth1": {"np_cnp_sent": 160},
})  # fmt: skip
GOOD: dict[str, Acts] = {
    "cnp-lost": {"baseline": GOOD_ACT, "observe": filtered(300), "verify": GOOD_ACT},
    "ecn-without-cc": {"baseline": GOOD_ACT, "observe": UNANSWERED, "verify": GOOD_ACT},
    "dcqcn-off-on-one-host": {"baseline": GOOD_ACT, "observe": GREEDY, "verify": GOOD_ACT},
}
CHANGES: list[tuple[str, Change, str]] = [
    ("cnp-lost", ("observe", "h2:eth1", "rp_cnp_handled", 1), "cnps-do-not-arrive"),
    ("cnp-lost", ("baseline", "h2:eth1", "rp_cnp_handled", 10), "cnps-do-not-arrive"),
    ("cnp-lost", ("verify", "h4:eth1", "np_cnp_sent", 70), "cnps-do-not-arrive"),
    ("cnp-lost", ("baseline", "leaf1:swp2", "tx_pause", 8), "pfc-takes-over"),
    ("cnp-lost", ("verify", "leaf1:swp3", "tx_pause", 8), "pfc-takes-over"),
    ("cnp-lost", ("observe", "leaf1:swp5", "lost", 1), "only-the-filter-counts-drops"),
    ("ecn-without-cc", ("observe", "h4:eth1", "np_cnp_sent", 1), "marks-are-not-answered"),
    ("ecn-without-cc", ("verify", "h4:eth1", "np_cnp_sent", 0), "marks-are-not-answered"),
    ("ecn-without-cc", ("observe", "leaf1:swp5", "marked", 0), "marks-are-not-answered"),
    ("ecn-without-cc", ("baseline", "leaf1:swp4", "tx_pause", 8), "pfc-takes-over"),
    ("ecn-without-cc", ("observe", "leaf1:swp5", "depth", 39_000), "the-queue-is-deep"),
    ("ecn-without-cc", ("verify", "leaf1:swp1", "lost", 1), "nothing-is-lost"),
    ("dcqcn-off-on-one-host", ("observe", "h3:eth1", "tx_bytes", 110_000), "the-greedy-host-takes-the-link"),
    ("dcqcn-off-on-one-host", ("verify", "h1:eth1", "tx_bytes", 30_000), "those-that-obey-are-alike"),
    ("dcqcn-off-on-one-host", ("observe", "h3:eth1", "rp_cnp_ignored", 0), "cnps-are-ignored-by-one"),
    ("dcqcn-off-on-one-host", ("observe", "h3:eth1", "rp_cnp_handled", 1), "cnps-are-ignored-by-one"),
    ("dcqcn-off-on-one-host", ("observe", "leaf1:swp5", "lost", 1), "nothing-is-lost"),
]
test_a_good_run_passes, test_each_check_has_one_that_it_fails, test_what_a_run_does_not_show_is_unknown = judging(
    GOOD, CHANGES
)


def test_cnps_that_the_filter_did_not_drop_fail(tmp_path: Path) -> None:
    acts = {**GOOD["cnp-lost"], "observe": filtered(100)}
    assert failing(tmp_path, "cnp-lost", acts) == ["only-the-filter-counts-drops"]


def test_without_traffic_a_share_is_no_success(tmp_path: Path) -> None:
    acts = {name: replace(act, counted={}) for name, act in GOOD["dcqcn-off-on-one-host"].items()}
    found = outcomes(play(tmp_path, "dcqcn-off-on-one-host", acts))
    assert found["the-greedy-host-takes-the-link"] == "fail"
