"""Run Docker and containerlab: deploy containers, find them and remove them.

Labels identify the fabric of a container: labs of other users may have the same name, before and after the fabric.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.export import labels
from lab.export.containerlab import BUILT_IMAGE, DEFAULT_IMAGE, DEFINITION
from lab.kernel.process import locks, netns, process, signals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LAB: Final = "containerlab"
_NODE: Final = "clab-node-name"
_FILE: Final = "clab-topo-file"
"""Labels that containerlab puts on each container."""
_SSH: Final = Path("/etc/ssh/ssh_config.d")
"""Directory in which containerlab leaves a file for each lab."""
_DEPLOY_TIMEOUT: Final = 900.0
_TIMEOUT: Final = 300.0
_GRACE: Final = 30.0
"""Seconds for an interrupted containerlab to clean up; it takes 20 at most."""
_INSPECTED: Final = f'{{{{.State.Pid}}}} {{{{.Name}}}} {{{{index .Config.Labels "{_NODE}"}}}}'


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a lab, as Docker reports it."""

    node: str
    name: str
    pid: int
    """The pid of its first process; 0 if it does not run."""


def check() -> None:
    """Raise EnvironmentLacks if containerlab is not installed, or Docker does not answer."""
    if process.which("containerlab") is None:
        raise EnvironmentLacks("program containerlab not found", "rocelab vm up --with containerlab has one")
    _docker("version")


def refuse_taken(lab: str) -> None:
    """Raise UsageError if a lab of that name exists: containerlab would change that lab to match this one."""
    if _labelled(_LAB, lab):
        raise UsageError(f"a containerlab lab {lab} exists that rocelab did not deploy", "use another --name")


def image() -> str:
    """Return the default image: the one that rocelab built if Docker has it, otherwise FRR's own."""
    return BUILT_IMAGE if _docker("images", "--quiet", BUILT_IMAGE) else DEFAULT_IMAGE


def name_of(lab: str, node: str) -> str:
    """Return containerlab's name for the container of a node."""
    return f"clab-{lab}-{node}"


def deploy(folder: Path) -> None:
    """Deploy the lab in ``folder`` with containerlab; OperationFailed with the last line of its output.

    containerlab gets a SIGTERM if the caller is interrupted or killed, and cleans up as far as it can. It holds a
    lock on the lab's file as long as it runs, and ``remove`` waits for that lock.
    """
    with (
        os.fdopen(os.memfd_create("containerlab"), "r+", errors="replace") as printed,
        locks.sharing(folder / DEFINITION) as lock,
        process.ended(lambda: _deploying(folder, printed, lock)) as program,
    ):
        try:
            code = process.wait(program, _DEPLOY_TIMEOUT)
        except BaseException:
            with signals.held():
                process.stop(program, _GRACE)
            raise
        printed.seek(0)
        said = _last_line(printed.read())
    if code:
        raise OperationFailed(f"containerlab does not deploy the lab: {said}")


def _deploying(folder: Path, printed: IO[str], lock: int) -> process.Process:
    ending = [process.find_tool("setpriv", "util-linux"), "--pdeathsig=TERM"]
    words = [process.find_tool("containerlab", "containerlab"), "deploy", "--skip-labdir-acl", "--topo"]
    environment = {**os.environ, "TMPDIR": str(folder), "CLAB_VERSION_CHECK": "disable"}
    within = process.Surroundings("/", environment, keep=[lock])
    return process.start([*ending, *words, folder / DEFINITION], stdout=printed, stderr=printed, within=within)


def running(owner: str, nodes: Iterable[str]) -> dict[str, int]:
    """Return the pid of the first process of each node's container.

    OperationFailed if a container is missing or has ended, then with the last line of its log.
    """
    found = {container.node: container for container in of(owner)}
    for node in nodes:
        if node not in found:
            raise OperationFailed(f"{node} has no container", "docker ps --all shows those that others have")
        if not found[node].pid:
            logs = _try_docker("logs", "--tail", "1", found[node].name)
            raise OperationFailed(f"the container of {node} has ended: {_last_line(logs.stdout + logs.stderr)}")
    return {node: container.pid for node, container in found.items()}


def remove(folder: Path, lab: str, nodes: Iterable[str], owner: str) -> None:
    """Remove the fabric's containers, and the files that containerlab left; parts that are gone are skipped.

    Waits for a containerlab that is still deploying: its rocelab was killed, so it is about to end.
    """
    with locks.held(folder / DEFINITION):
        if ours := of(owner):
            _try_docker("rm", "--force", "--volumes", *(container.name for container in ours))
        if left := of(owner):
            names = ", ".join(container.name for container in left)
            raise OperationFailed(f"Docker does not remove {names}", f"docker rm --force {left[0].name}")
        if not _labelled(_LAB, lab):
            for node in nodes:
                link = netns.NETNS_DIR / name_of(lab, node)
                if link.is_symlink():
                    link.unlink()
            (_SSH / f"clab-{lab}.conf").unlink(missing_ok=True)


def of(owner: str) -> list[Container]:
    """Return the containers with the fabric's owner token in their label, running or not."""
    return _labelled(labels.OWNER, owner)


def of_lab(lab: str, nodes: Iterable[str]) -> dict[str, Container]:
    """Return the running containers of a lab that rocelab did not deploy, by node.

    UsageError if there is no such lab, or it belongs to a fabric; EnvironmentLacks if a node's container is missing
    or does not run.
    """
    found = {container.node: container for container in _labelled(_LAB, lab)}
    if not found:
        raise UsageError(f"no lab {lab} is deployed", "containerlab inspect --all lists those that are")
    if _docker("ps", "--all", "--quiet", "--filter", f"label={_LAB}={lab}", "--filter", f"label={labels.OWNER}"):
        raise UsageError(f"lab {lab} is of a fabric of rocelab's", "rocelab ls lists those")
    for node in nodes:
        if node not in found:
            raise EnvironmentLacks(f"node {node} of lab {lab} has no container", "deploy the lab anew")
        if not found[node].pid:
            raise EnvironmentLacks(f"the container of {node} does not run", f"docker start {found[node].name}")
    return {node: found[node] for node in nodes}


def file_of(lab: str) -> Path:
    """Return the topology file of a lab, from the label of its containers; UsageError if lab or file is missing."""
    if not (found := _labelled(_LAB, lab)):
        raise UsageError(f"no lab {lab} is deployed", "containerlab inspect --all lists those that are")
    said = _docker("inspect", "--format", f'{{{{index .Config.Labels "{_FILE}"}}}}', found[0].name)
    if not Path(said).is_file():
        raise UsageError(f"the file of lab {lab}, {said}, is not there", "rocelab adopt FILE takes it elsewhere")
    return Path(said)


def command(container: str, words: Sequence[str], *, terminal: bool) -> list[str]:
    """Return the command line that runs a program in a container, with or without the caller's terminal."""
    return [_program(), "exec", "--interactive", *(["--tty"] if terminal else []), container, *words]


def _labelled(label: str, value: str) -> list[Container]:
    ids = _docker("ps", "--all", "--quiet", "--filter", f"label={label}={value}").split()
    if not ids:
        return []
    said = _try_docker("inspect", "--format", _INSPECTED, *ids).stdout  # fails for containers removed meanwhile
    parts = [line.split() for line in said.splitlines() if line.strip()]
    return [Container(node, name.removeprefix("/"), int(pid)) for pid, name, node in parts]


def _program() -> str:
    return process.find_tool("docker", "docker.io")


def _try_docker(*words: str) -> process.Completed:
    return process.run([_program(), *words], timeout=_TIMEOUT, check=False)


def _docker(*words: str) -> str:
    """Return the output of a Docker command; EnvironmentLacks if it fails."""
    done = _try_docker(*words)
    if done.returncode:
        raise EnvironmentLacks(
            f"Docker does not answer: {_last_line(done.stderr)}", "start it; in rocelab's VM that is docker-up"
        )
    return done.stdout.strip()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
