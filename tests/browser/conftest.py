"""Chromium, or a skip; a failure where ``ROCELAB_REQUIRE`` asks for it and the distribution has it as a package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import BINARY, Chromium

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    if BINARY is None:
        packaged = "ID=ubuntu" not in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
        if packaged and os.environ.get("ROCELAB_REQUIRE", "") in {"all", "browser"}:
            pytest.fail("needs chromium: ./scripts/setup (ROCELAB_REQUIRE asks for it)", pytrace=False)
        pytest.skip("needs chromium")
    with Chromium() as running:
        yield running
