"""Scenarios of ECN and of classes, judged: each check has a recording that it passes, fails, and cannot tell of."""

from pathlib import Path

from tests.unit.scenario.played import Act, Acts, Change, judging, outcomes, play


def tos(value: str) -> tuple[str, str, str, int]:
    said = f"IP (tos {value}, ttl 62, id 1, flags [DF], proto UDP (17), length 4156)\n"
    return "h8", "tcpdump -i eth1", said, 0


MARKING = {"leaf1:swp6": {"marked": 90}, "leaf2:swp6": {"marked": 90}}
NOT_ECT: Acts = {
    "baseline": Act(MARKING, [tos("0x6b,CE")]),
    "observe": Act(
        {
            "leaf1:swp6": {"marked": 90}, "leaf2:swp6": {"not_ect": 90}, "leaf2:swp3": {"tx_pause": 4},
            "leaf2:swp4": {"tx_pause": 4},
        },
        [tos("0x68")],
    ),
    "verify": Act(MARKING),
}  # fmt: skip
PAUSING = {"leaf2:swp3": {"tx_pause": 4}, "leaf2:swp4": {"tx_pause": 4}}
ABOVE_XOFF: Acts = {
    "baseline": Act({**MARKING, **PAUSING}),
    "observe": Act({"leaf1:swp6": {"marked": 90}, "leaf2:swp6": {"depth": 310_000}, **PAUSING}),
    "verify": Act({**MARKING, **PAUSING}),
}
MAPPED: Acts = {
    "baseline": Act({"spine1:swp2": {"tx_packets": 100}}),
    "observe": Act(
        {
            "spine1:swp2": {"tx_bytes0": 900_000, "tx_packets0": 300}, "spine2:swp2": {"tx_bytes": 900_000},
            "leaf2:swp1": {"rx_packets": 300, "tx_pause": 3, "refused": 20},
        }
    ),
    "verify": Act({"spine1:swp2": {"tx_packets": 100}}),
}  # fmt: skip
TOO_LOW: Acts = {
    "baseline": Act({"leaf1:swp6": {"tx_packets": 100}, "leaf2:swp6": {"tx_packets": 100}}),
    "observe": Act(
        {"leaf1:swp6": {"depth": 16_680}, "leaf2:swp6": {"depth": 16_680, "tx_packets": 100, "marked": 90}}
    ),
    "verify": Act({"leaf1:swp6": {"tx_packets": 100}, "leaf2:swp6": {"tx_packets": 100}}),
}
STANDING = {"tx_packets": 1300, "marked": 325, "depth": 43_000}
OFF_BY_3KB: Acts = {
    "baseline": Act({"leaf1:swp6": STANDING, "leaf2:swp6": STANDING}),
    "observe": Act({"leaf1:swp6": STANDING, "leaf2:swp6": {**STANDING, "marked": 650}}),
    "verify": Act({"leaf1:swp6": STANDING, "leaf2:swp6": STANDING}),
}
GOOD = {
    "ecn-off-by-3kb": OFF_BY_3KB,
    "not-ect": NOT_ECT,
    "ecn-above-xoff": ABOVE_XOFF,
    "dscp-map-mismatch": MAPPED,
    "ecn-too-low": TOO_LOW,
}
CHANGES: list[tuple[str, Change, str]] = [
    ("ecn-off-by-3kb", ("baseline", "leaf2:swp6", "marked", 570), "three-kb-are-visible"),
    ("ecn-off-by-3kb", ("verify", "leaf2:swp6", "marked", 650), "three-kb-are-visible"),
    ("ecn-off-by-3kb", ("observe", "leaf2:swp6", "depth", 46_500), "at-the-same-depth"),
    ("ecn-off-by-3kb", ("observe", "leaf1:swp3", "tx_pause", 1), "there-is-no-other-symptom"),
    ("ecn-off-by-3kb", ("observe", "leaf1:swp6", "lost", 1), "there-is-no-other-symptom"),
    ("not-ect", ("observe", "leaf2:swp6", "marked", 1), "one-leaf-marks-nothing"),
    ("not-ect", ("verify", "leaf2:swp6", "marked", 0), "one-leaf-marks-nothing"),
    ("not-ect", ("observe", "leaf1:swp6", "marked", 0), "one-leaf-marks-nothing"),
    ("not-ect", ("observe", "leaf2:swp6", "not_ect", 0), "unmarkable-packets-are-counted"),
    ("not-ect", ("baseline", "leaf2:swp6", "not_ect", 1), "unmarkable-packets-are-counted"),
    ("not-ect", ("observe", "leaf2:swp4", "tx_pause", 0), "only-pfc-is-left"),
    ("not-ect", ("observe", "leaf1:swp1", "lost", 1), "only-pfc-is-left"),
    ("ecn-above-xoff", ("observe", "leaf2:swp6", "marked", 1), "pauses-without-marks"),
    ("ecn-above-xoff", ("observe", "leaf2:swp3", "tx_pause", 0), "pauses-without-marks"),
    ("ecn-above-xoff", ("observe", "leaf1:swp6", "marked", 0), "the-other-leaf-marks"),
    ("ecn-above-xoff", ("observe", "leaf2:swp6", "depth", 39_000), "kmin-is-out-of-reach"),
    ("ecn-above-xoff", ("observe", "leaf2:swp6", "depth", 500_001), "kmin-is-out-of-reach"),
    ("ecn-above-xoff", ("observe", "leaf2:swp6", "lost", 1), "nothing-is-lost"),
    ("dscp-map-mismatch", ("observe", "spine1:swp2", "tx_bytes", 900_000), "the-wrong-priority-grows"),
    ("dscp-map-mismatch", ("observe", "spine2:swp2", "tx_bytes", 0), "the-wrong-priority-grows"),
    ("dscp-map-mismatch", ("observe", "leaf2:swp1", "rx_packets", 0), "neighbours-have-the-right-priority"),
    ("dscp-map-mismatch", ("observe", "leaf2:swp1", "tx_pause", 0), "a-pause-stops-nothing"),
    ("dscp-map-mismatch", ("observe", "leaf2:swp2", "refused", 1), "only-one-hop-drops"),
    ("dscp-map-mismatch", ("verify", "leaf2:swp1", "refused", 1), "only-one-hop-drops"),
    ("dscp-map-mismatch", ("baseline", "leaf2:swp1", "refused", 1), "only-one-hop-drops"),
    ("ecn-too-low", ("observe", "leaf2:swp6", "marked", 50), "most-packets-are-marked"),
    ("ecn-too-low", ("baseline", "leaf2:swp6", "marked", 1), "most-packets-are-marked"),
    ("ecn-too-low", ("verify", "leaf1:swp6", "marked", 1), "the-other-leaf-marks-nothing"),
    ("ecn-too-low", ("observe", "leaf2:swp6", "depth", 25_021), "nothing-is-congested"),
    ("ecn-too-low", ("observe", "spine1:swp1", "tx_pause", 1), "nothing-is-congested"),
]
test_a_good_run_passes, test_each_check_has_one_that_it_fails, test_what_a_run_does_not_show_is_unknown = judging(
    GOOD, CHANGES
)


def test_3_kb_that_do_not_show_fail(tmp_path: Path) -> None:
    def shares(name: str, one: int, other: int) -> dict[str, str]:
        counted = {"leaf1:swp6": {**STANDING, "marked": one}, "leaf2:swp6": {**STANDING, "marked": other}}
        found = outcomes(play(tmp_path / name, "ecn-off-by-3kb", {**OFF_BY_3KB, "observe": Act(counted)}))
        return {check: outcome for check, outcome in found.items() if outcome != "pass"}

    both = {"three-kb-are-visible": "fail", "three-kb-are-a-quarter": "fail", "the-job-would-run-at-60": "fail"}
    assert shares("alike", 325, 325) == both
    assert shares("all", 325, 1200) == {check: "fail" for check in both if check != "three-kb-are-visible"}
    assert shares("more of both", 325 + 390, 650 + 390) == {"the-job-would-run-at-60": "fail"}
    assert shares("none", 0, 325)["the-job-would-run-at-60"] == "unknown"


def test_what_tcpdump_shows_decides(tmp_path: Path) -> None:
    def with_tos(name: str, observed: str) -> dict[str, str]:
        meanwhile = Act(NOT_ECT["observe"].counted, [tos(observed)])
        return outcomes(play(tmp_path / name, "not-ect", {**NOT_ECT, "observe": meanwhile}))

    assert with_tos("still", "0x6a,ECT(0)")["packets-lack-ect"] == "fail"
    assert with_tos("other", "0x0")["packets-lack-ect"] == "fail"
    silent = Act(NOT_ECT["observe"].counted, [("h8", "tcpdump -i eth1", "", 0)])
    found = outcomes(play(tmp_path / "silent", "not-ect", {**NOT_ECT, "observe": silent}))
    assert found["packets-lack-ect"] == "unknown"
