"""Check the user's own FRR lines with vtysh before the fabric is built."""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING, Final

from lab.errors import InvalidInput, Problem
from lab.kernel.process import process
from lab.routing.frr_config.render import own_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology

_REFUSED: Final = re.compile(r"^line (\d+): % (.*?)(?:\[\d+\])?:", re.MULTILINE)


def check(topology: Topology, source: str = "") -> None:
    """Raise InvalidInput with every line of ``frr`` that vtysh does not know; EnvironmentLacks without vtysh.

    vtysh's dry run knows the commands of all daemons, and needs none of them to run. The daemons check the values
    later.
    """
    problems = [problem for name in topology.frr for problem in _problems(topology, name)]
    if problems:
        raise InvalidInput(source or topology.name, problems)


def _problems(topology: Topology, name: str) -> Iterator[Problem]:
    lines = own_lines(topology, name)
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".conf") as file:
        file.write("".join(f"{line}\n" for _, line in lines))
        file.flush()
        done = process.run([process.find_tool("vtysh", "frr"), "-C", "-f", file.name], check=False)
    if done.returncode == 0:
        return
    refused = _REFUSED.findall(done.stdout + done.stderr)
    for number, why in refused:
        written, line = lines[int(number) - 1]
        yield Problem(f"frr.{name}", f"line {written}, {line.strip()!r}: {why.lower()}", "try it in rocelab vtysh")
    if not refused:
        said = " ".join((done.stdout + done.stderr).split()) or f"it ended with {done.returncode}"
        yield Problem(f"frr.{name}", f"vtysh does not take it: {said[:200]}", "try it in rocelab vtysh")
