"""The containerlab backend: containerlab creates the nodes; rocelab creates links, ports and RDMA devices.

containerlab deploys the containers without links. rocelab names their namespaces and creates the links in them: the
planned ifindexes can be set only when an interface is created.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from signal import Signals
from typing import TYPE_CHECKING, Final

from lab.backends import containers
from lab.backends.fabric_state import JournalKind
from lab.backends.netns_backend import NetnsBackend, refuse_inside
from lab.errors import OperationFailed
from lab.export import containerlab as export
from lab.export.folder import write
from lab.kernel.process import netns, netns_processes, process
from lab.routing.daemons import Router
from lab.routing.frr_config.render import has_routers, render_router

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from lab.backends.backend import Fabric, Progress
    from lab.backends.fabric_state import FabricState
    from lab.kernel.process.netns import Namespace
    from lab.model.topology import Topology

_WATCHDOG: Final = "watchfrr"
_STARTER: Final = "/usr/lib/frr/watchfrr.sh"
"""The script of watchfrr: it starts a daemon with the options and the configuration of the container."""
_PATIENCE: Final = 90.0
"""Seconds for the script to start a daemon."""
_START_TIMEOUT: Final = 300.0
"""Seconds for all daemons of a running container to start."""
_POLL: Final = 0.1


class ContainerlabBackend(NetnsBackend):
    """Nodes are containers deployed by containerlab; everything else is as in the netns backend."""

    name: str = "containerlab"

    def __init__(self, image: str = "") -> None:
        """Use ``image`` for the containers, or the default image; UsageError for an invalid image name."""
        if image:
            export.check_image(image)
        self._image = image

    def _check_programs(self, topology: Topology) -> None:
        """Check that containerlab accepts the topology, and that it and Docker are installed; FRR is in the image."""
        export.check(topology)
        containers.check()

    def router(self, state: FabricState, node: str) -> Router:
        """Return the daemons in the container of ``node``; their sockets are in the fabric's state directory."""
        return self._router(state, node)

    def _router(self, state: FabricState, node: str) -> ContainerRouter:
        place = self.namespace(state, node)
        return ContainerRouter(
            name=node,
            namespace=place,
            directory=state.node_directory(node),
            container=containers.name_of(state.name, node),
        )

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """Return a message for each container that was removed, stopped, or restarted without its links."""
        running = {container.node: container.pid for container in containers.of(state.owner)}
        found = {}
        for name in state.proofs(JournalKind.NAMESPACE):
            node = name.rpartition(".")[2]
            if not (pid := running.get(node)):
                found[node] = "its container is gone: rocelab down, then up"
            elif netns.place_of(pid) != self.namespace(state, node).place:
                found[node] = "its container was started again, without its links: rocelab down, then up"
        return found

    def _make_nodes(self, fabric: Fabric, namespaces: Mapping[str, Namespace], progress: Progress) -> None:
        """Deploy the containers with containerlab, and give names to their namespaces."""
        progress("containers", 0, 1)
        state = fabric.state
        containers.refuse_taken(state.name)
        played = export.DeployedLab(state.owner, _sockets(fabric))
        write(export.export_lab(fabric.topology, export.Images(self._image or containers.image()), played), state.lab)
        netns.prepare()
        state.record(JournalKind.LAB, [state.name])
        containers.deploy(state.lab)
        pids = containers.running(state.owner, namespaces)
        names = {namespace.name: pids[node] for node, namespace in namespaces.items()}
        netns.adopt(names, lambda cookies: state.record(JournalKind.NAMESPACE, cookies))
        progress("containers", 1, 1)

    def _start_routers(self, fabric: Fabric, progress: Progress) -> None:
        """Wait for the daemons, which each container starts itself."""
        switches = fabric.topology.switches if has_routers(fabric.topology) else ()
        for done, node in enumerate(switches):
            progress("daemons", done, len(switches))
            config = render_router(fabric.topology, fabric.plan, node.name)
            self._router(fabric.state, node.name).await_daemons(config.files)
        progress("daemons", len(switches), len(switches))

    def remove(self, state: FabricState) -> None:
        """Remove the fabric's containers, then its objects in them; parts that are gone already are skipped."""
        refuse_inside(state)
        if state.recorded(JournalKind.LAB):
            nodes = [node.name for node in state.load_topology().nodes]
            containers.remove(state.lab, state.name, nodes, state.owner)
        super().remove(state)


def _sockets(fabric: Fabric) -> dict[str, Path]:
    """Create a world-writable folder for each switch's sockets: the uid of the image's user frr is unknown."""
    found = {node.name: fabric.state.node_directory(node.name) for node in fabric.topology.switches}
    for folder in found.values():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir()
        folder.chmod(0o777)
    return found


@dataclass(frozen=True, slots=True)
class ContainerRouter(Router):
    """The daemons of a switch in a container, which FRR's own watchdog (watchfrr) starts and supervises."""

    container: str

    def pids(self) -> dict[str, int]:
        """Return the pids of the daemons in the machine's pid namespace, and 0 for one that has ended."""
        written = Router.pids(self)  # read first, so that a daemon that starts now is not reported as ended
        ours = netns_processes.inner_pids(self.namespace)
        return {daemon: ours.get(pid, 0) for daemon, pid in written.items()}

    def await_daemons(self, wanted: Collection[str]) -> None:
        """Wait until the ``wanted`` daemons run; OperationFailed if the container ended, or after 300 s."""
        deadline = time.monotonic() + _START_TIMEOUT
        while missing := [daemon for daemon in wanted if not self.pids().get(daemon)]:
            if not netns_processes.inner_pids(self.namespace) or time.monotonic() > deadline:
                raise OperationFailed(f"{self.name}: {missing[0]} does not start", f"docker logs {self.container}")
            time.sleep(_POLL)

    def signal(self, daemon: str, number: Signals) -> None:
        """Send a signal to a daemon while watchfrr is stopped: it would restart the daemon at once.

        SIGCONT also resumes watchfrr.
        """
        if number is not Signals.SIGCONT:
            Router.signal(self, _WATCHDOG, Signals.SIGSTOP)
        Router.signal(self, daemon, number)
        if number is Signals.SIGCONT:
            Router.signal(self, _WATCHDOG, number)

    def start_again(self, daemon: str) -> None:
        """Start a daemon that has ended with watchfrr's script, and resume watchfrr; OperationFailed if it fails.

        Does nothing to a daemon that runs. watchfrr itself would restart all daemons if zebra ended, and may wait a
        minute.
        """
        try:
            if not self.lives(daemon):
                self._start_alone(daemon)
        finally:
            Router.signal(self, _WATCHDOG, Signals.SIGCONT)

    def _start_alone(self, daemon: str) -> None:
        start = containers.command(self.container, [_STARTER, "start", daemon], terminal=False)
        done = process.run(start, timeout=_PATIENCE, check=False)
        if not self.lives(daemon):
            said = " ".join((done.stdout + done.stderr).split()) or "its script says nothing"
            raise OperationFailed(f"{self.name}: {daemon} does not start: {said}", "rocelab down, then up")

    def vtysh(self, *commands: str) -> list[str]:
        """Return the command line that runs the container's own vtysh."""
        words = ["vtysh", *(word for command in commands for word in ("-c", command))]
        return containers.command(self.container, words, terminal=not commands and sys.stdin.isatty())
