"""``rocelab vm checkpoint``: saved states from which VMs are restored."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lab.cli.kit.output import JsonFlag, print_json, print_progress, stdout, table
from lab.errors import UsageError
from lab.units import format_size
from lab.vm.checkpoints import checkpoint, migration
from lab.vm.host import vm_lifecycle
from lab.vm.host.qemu import Time
from lab.vm.host.vm_state import state_folder

app = typer.Typer(no_args_is_help=True, help="Save the VM's state, and restore it any number of times.")

VmName = Annotated[str, typer.Option("--name", envvar="ROCELAB_VM_NAME", metavar="VM", help="The VM.")]
What = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Name of the checkpoint.")]


@app.command()
def save(what: What, name: VmName = "") -> None:
    """Save the state of the VM, which is stopped while it is saved. No command may be running in it."""
    state = state_folder(name)
    running = state.running()
    if running is None:
        raise UsageError("the VM is down", "rocelab vm up")
    if running.time is not Time.VIRTUAL:
        raise UsageError("the VM runs in host time, which cannot be stopped", "rocelab vm up --time virtual")
    began = time.monotonic()
    guest = vm_lifecycle.guest_of(running, state)
    about = checkpoint.now("saved by hand", guest, automatic=False)
    with vm_lifecycle.locked(state, print_progress):
        made = checkpoint.save(
            checkpoint.checked_name(what), about, lambda into: migration.save(state, guest.image, into)
        )
    took = time.monotonic() - began
    stdout.print(f"checkpoint {made.name}: {format_size(made.size)} in {took:.1f} s", highlight=False)


@app.command("ls")
def list_checkpoints(as_json: JsonFlag = False) -> None:
    """List the checkpoints, the most recently used first."""
    found = [(one, one.about()) for one in checkpoint.every()]
    if as_json:
        print_json(
            [
                {"name": one.name, "what": about.what, "saved": about.saved, "used": one.used, "bytes": one.size}
                | {"automatic": about.automatic, "image": about.image}
                for one, about in found
            ]
        )
        return
    rows = [
        (one.name, about.what, _moment(about.saved), _moment(one.used), format_size(one.size)) for one, about in found
    ]
    columns = ("checkpoint", "what", "saved", "used", "size")
    stdout.print(table("checkpoints", columns, rows) if rows else "no checkpoint")


@app.command()
def restore(what: What, name: VmName = "") -> None:
    """Start a VM from a checkpoint. The VM of that name must be down."""
    state = state_folder(name)
    if state.running():
        raise UsageError("the VM is up", "rocelab vm down, or take another --name")
    running = vm_lifecycle.up(state, vm_lifecycle.Wanted(time=Time.VIRTUAL, checkpoint=what), print_progress)
    stdout.print(f"VM is up after {running.boot_seconds:.1f} s, from checkpoint {what}", highlight=False)


@app.command()
def rm(what: Annotated[list[str], typer.Argument(metavar="CHECKPOINT...", help="Names of checkpoints.")]) -> None:
    """Remove checkpoints; VMs that were restored from them keep running."""
    for found in [checkpoint.required(name) for name in what]:
        found.remove()


def _moment(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
