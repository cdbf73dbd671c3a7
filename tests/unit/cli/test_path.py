"""What ``rocelab path`` refuses before it asks a kernel."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.path import _place
from lab.errors import UsageError
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology

TENANT = Path(__file__).parents[3] / "topologies" / "tenant.yaml"


@pytest.mark.parametrize("host", ["h1", "h6", "h6:eth1"])
def test_a_host_in_a_network_is_behind_a_tunnel(host: str) -> None:
    topology = read_topology(TENANT)
    running: Any = SimpleNamespace(name="tenant", topology=topology, plan=plan_addresses(topology))
    with pytest.raises(UsageError, match=r"h[16] is in network (web|lan)"):
        _place(running, host)
