"""Checks that many scenarios share. Each function here returns a check for ``Scenario``.

::

    SCENARIO = Scenario(..., (the_host_sends_pauses, nothing_is_lost("observe"), rate_recovers("leaf1:swp6")))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.scenario.phase_measures import ACTS, dropped, mbits
from lab.scenario.state_changes import is_lost, link_changes, session_changes
from lab.scenario.verdict import expect

if TYPE_CHECKING:
    from lab.scenario.api import Check
    from lab.scenario.verdict import Verdict
    from lab.telemetry.read.recording import Recording


def nothing_is_lost(*phases: str) -> Check:
    """Return the check that no port drops a packet of the lossless class in these phases."""

    def nothing_is_lost(rec: Recording, _: Any) -> Verdict:
        """No port drops a packet of the lossless class."""
        lost = dropped(rec, *phases)
        return expect(lost == 0, f"{lost} packets dropped")

    return nothing_is_lost


def rate_recovers(*ports: str, least: float = 0.98) -> Check:
    """Return the check that each port's final rate is more than ``least`` times its first."""

    def rate_recovers(rec: Recording, _: Any) -> Verdict:
        """After the fix, the rate is as before."""
        rates = {port: [mbits(rec, port, phase) for phase in (ACTS[0], ACTS[-1])] for port in ports}
        evidence = ", ".join(f"{port} {before:.1f} then {after:.1f} Mb/s" for port, (before, after) in rates.items())
        return expect(all(after > least * before > 0 for before, after in rates.values()), evidence)

    return rate_recovers


def nothing_alarms(rec: Recording, _: Any) -> Verdict:
    """No link and no routing session changes, and no port drops a packet."""
    links, sessions = link_changes(rec, "observe"), session_changes(rec, "observe")
    lost = dropped(rec, "observe", priority=None)
    evidence = f"{len(links)} links changed, {len(sessions)} sessions changed, {lost} packets dropped"
    return expect(not links and not sessions and lost == 0, evidence)


def no_link_or_session_changes(rec: Recording, _: Any) -> Verdict:
    """No link and no routing session changes."""
    links, sessions = link_changes(rec, "observe"), session_changes(rec, "observe")
    return expect(not links and not sessions, f"{len(links)} links changed, {len(sessions)} sessions changed")


def no_session_is_lost(rec: Recording, _: Any) -> Verdict:
    """No routing session goes down."""
    lost = [each for each in session_changes(rec, "observe") if is_lost(each)]
    return expect(not lost, f"{len(lost)} sessions are lost")
