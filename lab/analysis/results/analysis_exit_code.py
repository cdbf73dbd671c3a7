"""The exit code of an analysis: that of ``rocelab analyze``, and of tests of captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import ExitCode

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts


def verdict(facts: AnalysisFacts) -> ExitCode:
    """Return FAIL if something looks wrong, UNKNOWN if there is nothing to judge, otherwise PASS."""
    if any(not (finding.note or finding.unjudged) for finding in facts.findings):
        return ExitCode.FAIL
    if any(finding.unjudged for finding in facts.findings):
        return ExitCode.UNKNOWN
    return ExitCode.PASS if facts.roce or facts.pause_frames or facts.tunnels else ExitCode.UNKNOWN
