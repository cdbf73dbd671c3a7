"""``rocelab doctor``: the capabilities of this machine, and remedies for missing ones."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.doctor.capabilities import look, relevant
from lab.doctor.features import FABRIC, FeaturePlace, judge
from lab.doctor.remedies import this_host
from lab.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.doctor.capabilities import Capability
    from lab.doctor.features import FeatureVerdict
    from lab.doctor.remedies import HostDistribution
    from lab.kernel.bpf.probe import ProbeFinding


def doctor(json: JsonFlag = False) -> None:
    """Check the capabilities of this machine; exit code 4 if a fabric works neither here nor in the VM."""
    host = this_host()
    capabilities = relevant(host)
    findings = look(host, capabilities)
    verdicts = judge(host, findings)
    if json:
        print_json(_as_data(host, capabilities, findings, verdicts))
    else:
        _show(host, capabilities, findings, verdicts)
    if any(verdict.feature == FABRIC.name and verdict.place is FeaturePlace.NOWHERE for verdict in verdicts):
        sys.exit(ExitCode.ENVIRONMENT)


def _as_data(
    host: HostDistribution,
    capabilities: Sequence[Capability],
    findings: Mapping[str, ProbeFinding],
    verdicts: Sequence[FeatureVerdict],
) -> dict[str, object]:
    return {
        "host": asdict(host),
        "capabilities": [
            {"name": capability.name, "serves": capability.serves, "optional": capability.optional}
            | asdict(findings[capability.name])
            | {"remedy": _remedy(host, capability, findings[capability.name])}
            for capability in capabilities
        ],
        "features": [asdict(verdict) for verdict in verdicts],
    }


def _show(
    host: HostDistribution,
    capabilities: Sequence[Capability],
    findings: Mapping[str, ProbeFinding],
    verdicts: Sequence[FeatureVerdict],
) -> None:
    rows = [_row(host, capability, findings[capability.name]) for capability in capabilities]
    what = f", the VM of rocelab in {host.time} time" if host.in_vm else ""
    title = f"this machine: Linux {host.release}, {host.machine}{what}"
    stdout.print(table(title, ("capability", "here", "needed by", "remedy"), rows))
    works = [(verdict.feature, verdict.place, ", ".join(verdict.lacks), verdict.remedy) for verdict in verdicts]
    stdout.print(table("features", ("feature", "works", "missing here", "remedy"), works))


def _row(host: HostDistribution, capability: Capability, finding: ProbeFinding) -> tuple[str, str, str, str]:
    word = "?" if finding.present is None else "yes" if finding.present else "no"
    seen = f"{word}: {finding.detail}" if finding.detail else word
    remedy = _remedy(host, capability, finding)
    return (
        capability.name,
        seen,
        capability.serves,
        f"optional: {remedy}" if remedy and capability.optional else remedy,
    )


def _remedy(host: HostDistribution, capability: Capability, finding: ProbeFinding) -> str:
    """Return the remedy of a missing capability; "" if it could not be tested, for example without root."""
    return capability.mend(host) if finding.present is False else ""
