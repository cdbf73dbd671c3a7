"""These tests run ``down --all`` and compare the whole host: they want it to themselves."""

import pytest

from lab.backends.state import all_fabrics


@pytest.fixture(scope="session", autouse=True)
def alone() -> None:
    """Refuse to run beside somebody's fabric, which would be taken down."""
    running = ", ".join(state.name for state in all_fabrics())
    if running:
        pytest.exit(f"fabric {running} runs here and these tests would take it down: rocelab down --all first", 1)
