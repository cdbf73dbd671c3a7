"""These tests run ``down --all`` and compare the whole host: they want it to themselves."""

from collections.abc import Iterator

import pytest

from lab.backends.fabric_state import all_fabrics
from tests.fabric import snapshot
from tests.fabric.command import rocelab


@pytest.fixture(scope="session", autouse=True)
def alone() -> None:
    """Refuse to run beside a fabric of the user, which would be taken down."""
    running = ", ".join(state.name for state in all_fabrics())
    if running:
        pytest.exit(f"fabric {running} runs here and these tests would take it down: rocelab down --all first", 1)


@pytest.fixture
def unchanged() -> Iterator[None]:
    """A host that is, once the test's fabrics are down, as it was before."""
    before = snapshot.take()
    yield
    rocelab("down", "--all")
    assert before.differences(snapshot.take()) == []
