"""The pairs of hosts of a traffic pattern."""

import pytest

from lab.errors import UsageError
from lab.scenario.traffic.patterns import all_to_all, incast, ring

HOSTS = ["h1", "h2", "h3"]


def test_patterns_are_those_of_collective_operations() -> None:
    assert incast(HOSTS, "h4") == ["h1:h4", "h2:h4", "h3:h4"]
    assert ring(HOSTS) == ["h1:h2", "h2:h3", "h3:h1"]
    assert all_to_all(HOSTS) == ["h1:h2", "h1:h3", "h2:h1", "h2:h3", "h3:h1", "h3:h2"]


def test_nobody_writes_to_itself() -> None:
    with pytest.raises(UsageError, match="h2 is named twice"):
        ring(["h1", "h2", "h2"])
    with pytest.raises(UsageError, match="h3 is named twice"):
        incast(HOSTS, "h3")
    with pytest.raises(UsageError, match="1 hosts"):
        all_to_all(["h1"])
