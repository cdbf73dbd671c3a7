"""``rocelab down`` and ``ls``, without the YAML reader, which is slow to import and needed only by ``up``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.backends import fabric_state, lifecycle
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.open_fabric import require_root, tell
from lab.cli.kit.output import JsonFlag, print_error, print_json, stderr, stdout, table
from lab.cli.vm_routing import ask_vm
from lab.errors import LabError, OperationFailed, UsageError
from lab.kernel.process import netns
from lab.vm.calls.call import inside_vm


def down(
    name: FabricOption = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Remove every fabric on this machine, complete or half-built.")
    ] = False,
) -> None:
    """Remove a fabric, complete or half-built. --all removes every fabric on this machine, but none in the VM."""
    if all_ and name is not None:
        raise UsageError(f"down takes --fabric or --all, not both (got {name})", "leave one of them out")
    failures: list[LabError] = []
    for fabric in fabric_state.all_fabrics() if all_ else [fabric_state.find_fabric(name)]:
        try:
            _take_down(fabric)
        except (OperationFailed, UsageError) as error:  # continue with the other fabrics
            failures.append(error)
    netns.tidy()
    fabric_state.remove_empty_roots()
    for failure in failures[1:]:
        print_error(failure)
    if failures:
        raise failures[0]


def _take_down(fabric: fabric_state.FabricState) -> None:
    require_root(fabric)
    try:
        lifecycle.down(fabric, tell)
    except OSError as error:
        raise OperationFailed(
            f"fabric {fabric.name} is only partly removed: {error}", "run rocelab down again"
        ) from error
    stderr.print(f"fabric {fabric.name} is down", highlight=False)


def list_fabrics(context: typer.Context, json: JsonFlag = False) -> None:
    """List the fabrics on this machine, and in the VM when it is up."""
    found = []
    for fabric in fabric_state.all_fabrics():
        busy = fabric.is_locked()
        condition = "changing" if busy else "up" if fabric.ready else "in pieces"
        place = "VM" if inside_vm() else "here"
        found.append({"fabric": fabric.name, "state": condition, "nodes": fabric.node_count(), "place": place})
    if context.find_root().params.get("vm") is None:
        found += ask_vm("ls") or []
    if json:
        print_json(found)
    else:
        stdout.print(table("fabrics", ("fabric", "state", "nodes", "place"), [tuple(row.values()) for row in found]))
