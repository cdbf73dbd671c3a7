"""Markers decide what a test needs; a trial decides whether this machine has it.

A test whose need is not met is skipped. It fails when ``ROCELAB_REQUIRE`` is ``all`` or names its marker, so that CI
cannot go green by skipping.
"""

from __future__ import annotations

import gc
import os
import signal
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from lab.backends.containerlab_backend import ContainerlabBackend
from lab.backends.netns_backend import NetnsBackend
from lab.doctor.capabilities import CAPABILITIES, look
from lab.doctor.features import FABRIC, RDMA
from lab.doctor.remedies import this_host
from tests import backend

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # What a shell starts in the background is deaf to Ctrl-C, and so is what that starts: tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(*_: object) -> NoReturn:
    """SIGTERM is Ctrl-C once: fixtures take down what they have made, VMs among it."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # who ends a whole process group is heard twice
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _interrupt)

# Modules and tests stay: garbage is searched for when all are collected, and not before.
gc.disable()

# Commands of tests run where the tests do, whatever VM is up; a test about the VM says --vm.
os.environ["ROCELAB_VM"] = "0"

HERE = Path(__file__).parent
_PORT = (*RDMA.needs, "VXLAN", "VRF", "netem", "BTF", "BPF qdisc")
NEEDS = {"fabric": FABRIC.needs, "vm": _PORT, "stress": _PORT, "containers": (*_PORT, "containerlab", "Docker")}
"""The needs of each marker. Tests below the directory of the same name carry the marker without saying so."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the backend of tests that run on any (marker ``backends``)."""
    names = (NetnsBackend.name, ContainerlabBackend.name)
    parser.addoption("--backend", choices=names, default=names[0], help="for the tests with the marker backends")


def pytest_configure(config: pytest.Config) -> None:
    """Pass the choice to tests/backend.py."""
    backend.choose(config.getoption("backend"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its directory."""
    for item in items:
        room = item.path.relative_to(HERE).parts[0]
        if room in NEEDS:
            item.add_marker(room)


def pytest_collection_finish() -> None:
    """Exempt modules and thousands of tests, which stay, from each search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test, or fail it, when this machine lacks what its marker needs."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) and (lack := what_lacks(marker)):
            if os.environ.get("ROCELAB_REQUIRE", "") in {"all", marker}:
                pytest.fail(f"{lack} (ROCELAB_REQUIRE asks for it)", pytrace=False)
            pytest.skip(lack)


@cache
def what_lacks(marker: str) -> str:
    """The first need of a marker that this machine does not meet, with the remedy; nothing when all are met."""
    host = this_host()
    needed = [capability for capability in CAPABILITIES if capability.name in NEEDS[marker]]
    findings = look(host, needed)
    for capability in needed:
        if not findings[capability.name].present:
            return f"needs {capability.name}: {capability.mend(host)}"
    return ""
