"""Alerts that fired: which are root alerts by Alertmanager's inhibition, and how good they were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RULES: Final = Path(__file__).with_name("rocelab-roce.rules.yml")
"""The alert rules."""
ALERTMANAGER: Final = Path(__file__).with_name("alertmanager.yml")
"""Alertmanager's configuration."""
DASHBOARD: Final = Path(__file__).with_name("rocelab-roce.dashboard.json")
"""A dashboard for Grafana with the expressions of the rules; ``scripts/dashboard.py`` generates it."""
_MATCHER: Final = re.compile(r'(?P<label>\w+)(?P<regex>=~|=)"(?P<value>[^"]*)"')
_PLACES: Final = ("netdev", "device", "interface", "peer", "collector")
"""Labels that name the place within a node, the most readable one first."""


@dataclass(frozen=True)
class FiredAlert:
    """An alert with its labels, and the numbers of the scrapes at which it fired."""

    name: str
    labels: Mapping[str, str]
    scrapes: tuple[int, ...]

    @property
    def first(self) -> int:
        """The first scrape at which it fired."""
        return self.scrapes[0]

    @property
    def where(self) -> str:
        """The place: a node, with an interface, device or peer."""
        within = next((self.labels[label] for label in _PLACES if self.labels.get(label)), "")
        return ":".join(filter(None, (self.labels.get("instance", ""), within)))

    @property
    def causes(self) -> frozenset[str]:
        """The causes that the alert may mean, by rocelab's names."""
        return causes_of().get(self.name, frozenset())

    def matches(self, matchers: Sequence[str]) -> bool:
        """Whether it matches all of Alertmanager's matchers."""
        labels = {"alertname": self.name, **self.labels}
        return all(_matches(matcher, labels) for matcher in matchers)


def places_of(alerts: Sequence[FiredAlert]) -> list[str]:
    """Return the place of each alert, with the labels that differ between those of its name and place (``afi``)."""
    alike: dict[tuple[str, str], list[FiredAlert]] = {}
    for alert in alerts:
        alike.setdefault((alert.name, alert.where), []).append(alert)
    return [
        ", ".join([alert.where, *_differing_labels(alert, alike[alert.name, alert.where])]).removeprefix(", ")
        for alert in alerts
    ]


def _differing_labels(alert: FiredAlert, alike: Sequence[FiredAlert]) -> Iterator[str]:
    for label, value in sorted(alert.labels.items()):
        if any(other.labels.get(label) != value for other in alike):
            yield f"{label} {value}"


def _matches(matcher: str, labels: Mapping[str, str]) -> bool:
    found = _MATCHER.fullmatch(matcher)
    if found is None:
        raise ValueError(f"matcher {matcher}")
    value = labels.get(found["label"], "")
    return bool(re.fullmatch(found["value"], value)) if found["regex"] == "=~" else value == found["value"]


@cache
def causes_of() -> Mapping[str, frozenset[str]]:
    """Return the causes of each alert, from the annotations of the rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {
        rule["alert"]: frozenset(rule.get("annotations", {}).get("causes", "").split())
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    }


@cache
def _inhibitions() -> tuple[tuple[Sequence[str], Sequence[str]], ...]:
    rules: list[Any] = yaml.safe_load(ALERTMANAGER.read_text(encoding="utf-8"))["inhibit_rules"]
    return tuple((rule["source_matchers"], rule["target_matchers"]) for rule in rules)


def root_alerts(alerts: Sequence[FiredAlert]) -> list[FiredAlert]:
    """Return the alerts that Alertmanager sends: no other alert inhibits them after ``group_wait``, one scrape.

    An alert that fires at a single scrape is judged at that one.
    """
    return [alert for alert in alerts if any(_is_free(alert, alerts, scrape) for scrape in _judged(alert))]


def _judged(alert: FiredAlert) -> Iterator[int]:
    yield from alert.scrapes[1:] or alert.scrapes


def _is_free(alert: FiredAlert, alerts: Sequence[FiredAlert], scrape: int) -> bool:
    firing = [each for each in alerts if scrape in each.scrapes]
    return not any(
        alert.matches(targets) and any(each.matches(sources) and not each.matches(targets) for each in firing)
        for sources, targets in _inhibitions()
    )


@dataclass(frozen=True, slots=True)
class AlertProof:
    """How good the alerts on one recording were. ``cause`` is the injected one; "" without a fault.

    - ``detected``: an alert that means the cause fired after the fault; None without a fault.
    - ``delay``: scrapes from the fault until then; the first scrape after the fault is 1.
    - ``false_alarms``: alerts that fired without a fault, or before it.
    - ``root_right``: all root alerts after the fault mean its cause, and there is one.
    """

    cause: str
    detected: bool | None
    delay: int | None
    false_alarms: int
    root_right: bool | None


def prove(alerts: Sequence[FiredAlert], cause: str, fault_at: int) -> AlertProof:
    """Judge alerts by the injected cause; ``fault_at`` is the first scrape after the fault."""
    if not cause:
        return AlertProof(cause="", detected=None, delay=None, false_alarms=len(alerts), root_right=None)
    after = [alert for alert in alerts if alert.first >= fault_at]
    right = [alert for alert in after if cause in alert.causes]
    roots = root_alerts(after)
    return AlertProof(
        cause=cause,
        detected=bool(right),
        delay=min(alert.first for alert in right) - fault_at + 1 if right else None,
        false_alarms=len(alerts) - len(after),
        root_right=bool(roots) and all(cause in alert.causes for alert in roots),
    )
