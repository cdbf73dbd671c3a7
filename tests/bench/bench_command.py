"""The command line of a benchmark: its options, a table or ``--json``, and one line for an error."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def run_bench(
    name: str,
    description: str,
    options: Mapping[str, tuple[Callable[[str], Any], Any]],
    measure: Callable[..., dict[str, Any]],
    show: Callable[[dict[str, Any]], None],
) -> None:
    """Run ``./scripts/bench NAME``: ``measure`` gets each option by its name, ``show`` prints the figures.

    ``options`` maps names to the type and the default of each. Exits with a line for a LabError.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=description.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    for option, (kind, default) in options.items():
        parser.add_argument(f"--{option.replace('_', '-')}", type=kind, default=default)
    wanted = vars(parser.parse_args())
    as_json = wanted.pop("json")
    try:
        measured = measure(**wanted)
    except LabError as error:
        sys.exit(f"error: {error}")
    if as_json:
        json.dump(measured, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(measured)
