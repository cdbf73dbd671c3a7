"""``rocelab vm``: the VM with the kernel that RDMA and the emulated ports need."""

from __future__ import annotations

import json
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.command_line import parse
from lab.cli.kit import vm_call
from lab.cli.kit.output import JsonFlag, print_json, print_progress, stdout, table
from lab.cli.machine import checkpoint
from lab.errors import UsageError
from lab.units import format_size
from lab.vm.calls.call import inside_vm
from lab.vm.host import vm_lifecycle
from lab.vm.host.qemu import Time
from lab.vm.host.vm_state import all_running, state_folder
from lab.vm.image.recipe import current_recipe, current_recipes, image_of

if TYPE_CHECKING:
    from lab.vm.host.vm_state import RunningVm
    from lab.vm.image.recipe import Image

app = typer.Typer(no_args_is_help=True, help="A small VM with the kernel that RDMA and the emulated port need.")

Name = Annotated[
    str, typer.Option(envvar="ROCELAB_VM_NAME", metavar="NAME", help="Name of the VM. Each VM has its own guest.")
]
Lives = Annotated[
    Time | None,
    typer.Option(
        "--time",
        help="Clock of the VM: virtual time stays exact on a busy host. \\[default: virtual; host with KVM]",
    ),
]
Cpus = Annotated[
    int | None, typer.Option(min=1, max=64, help="Virtual CPUs; by default the host's, 2 to 4. One in virtual time.")
]
Memory = Annotated[int | None, typer.Option(min=512, metavar="MIB", help="Memory in MiB; by default 4096.")]
Shared = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        resolve_path=True,
        help="Another folder to share with the VM, at the same path.",
    ),
]
With = Annotated[
    str,
    typer.Option(
        "--with", metavar="WHAT", help="Additional content of the image: containerlab, with Docker and FRR's image."
    ),
]
app.add_typer(checkpoint.app, name="checkpoint")
_PASS_THROUGH = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.callback()
def outside_only() -> None:
    """Refuse inside the guest."""
    if inside_vm():
        raise UsageError("this is the VM", "run rocelab vm on the host")


@app.command()
def build(
    force: Annotated[bool, typer.Option(help="Build although the image is up to date.")] = False, extra: With = ""
) -> None:
    """Build the image, if it is missing or its recipe has changed."""
    from lab.vm.image import image_build as builder  # noqa: PLC0415 - needed only to build

    began = clock.monotonic()
    had = image_of(current_recipe(extra)).complete and not force
    image = builder.build(print_progress, extra=extra, force=force)
    took = "is up to date" if had else f"built in {clock.monotonic() - began:.0f} s"
    stdout.print(f"image {image.hash} {took}: {_describe(image)}", highlight=False)


@app.command()
def up(
    name: Name = "",
    time: Lives = None,
    cpus: Cpus = None,
    memory: Memory = None,
    share: Shared = None,
    extra: With = "",
) -> None:
    """Start the VM, building its image first when needed."""
    state = state_folder(name)
    before = state.running()
    running = vm_lifecycle.up(
        state, vm_lifecycle.Wanted(cpus=cpus, memory_mib=memory, share=share, time=time, extra=extra), print_progress
    )
    what = "was up already" if before else f"is up after {running.boot_seconds:.1f} s"
    stdout.print(f"VM {what} (kernel {running.kernel}, {running.accel}, {running.time} time)", highlight=False)
    if running.image.hash not in {recipe.hash for recipe in current_recipes()}:
        vm_call.note("it runs an image of an older recipe; for the new one: rocelab vm down, then up again")


@app.command(context_settings=_PASS_THROUGH)
def run(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments.")],
    name: Name = "",
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File or folder to copy back, by the command's name for it. May be repeated.",
        ),
    ] = None,
) -> None:
    """Run a command in the VM. Starts the VM if needed.

    Files named with --output are copied back; from a folder, only new files.
    """
    line = parse(context.find_root().command, command[1:]) if command[0] == "rocelab" else None
    raise typer.Exit(vm_call.send(command, line, name, output or ()))


@app.command()
def shell(name: Name = "") -> None:
    """Open a shell in the VM."""
    raise typer.Exit(vm_call.send(["bash", "-l"], None, name))


@app.command()
def status(name: Name = "", as_json: JsonFlag = False) -> None:
    """Show whether the VM is up, and its properties."""
    running = state_folder(name).running()
    facts = _facts(running)
    if as_json:
        print_json(facts)
    elif running is None:
        stdout.print(f"VM is down; image {'built' if facts['image_built'] else 'not built'}", highlight=False)
    else:
        stdout.print(
            table("VM", ("what", "value"), [(key.replace("_", " "), _plain(value)) for key, value in facts.items()])
        )


@app.command("ls")
def list_machines(as_json: JsonFlag = False) -> None:
    """List the VMs that are up."""
    machines = all_running()
    if as_json:
        print_json([{"name": name} | _facts(running) for name, running in machines.items()])
        return
    columns = ("name", "time", "accel", "cpus", "memory MiB", "up s")
    rows = [
        (name, running.time, running.accel, running.cpus, running.memory_mib, round(running.uptime))
        for name, running in machines.items()
    ]
    stdout.print(table("VMs", columns, rows) if rows else "no VM is up")


@app.command()
def down(name: Name = "") -> None:
    """Stop the VM, if it is up."""
    what = f"VM {name}" if name else "VM"
    if vm_lifecycle.down(state_folder(name)):
        stdout.print(f"{what} is down", highlight=False)
        return
    others = ", ".join(f"--name {each}" if each else "the VM without a name" for each in all_running())
    stdout.print(f"{what} was not up" + (f"; up: {others}" if others else ""), highlight=False)


def _facts(running: RunningVm | None) -> dict[str, object]:
    image = image_of(current_recipe())
    facts: dict[str, object] = {"up": running is not None, "image": image.hash, "image_built": image.complete}
    if running is not None:
        facts |= {
            "time": str(running.time),
            "accel": str(running.accel),
            "pid": running.pid,
            "checkpoint": running.checkpoint,
            "uptime_s": round(running.uptime, 1),
            "boot_s": running.boot_seconds,
            "kernel": running.kernel,
            "image": running.image.hash,
            "image_current": running.image.hash in {recipe.hash for recipe in current_recipes()},
            "cpus": running.cpus,
            "memory_mib": running.memory_mib,
            "shares": [str(share.path) for share in running.shares],
        }
    return facts


def _plain(value: object) -> object:
    """Return a cell of the table: lists joined by commas, booleans as yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _describe(image: Image) -> str:
    kernel = json.loads(image.manifest.read_text(encoding="utf-8"))["kernel"]
    return f"kernel {kernel}, {format_size(image.disk.stat().st_blocks * 512)} on disk, in {image.folder}"
