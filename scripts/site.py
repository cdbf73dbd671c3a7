"""The pages of lab/docs as a site, with every command's help and the Python API: see scripts/docs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from sphinx.application import Sphinx
from typer.core import TyperGroup
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1]))  # this checkout, not the one that is installed

from lab import __version__
from lab.cli.app import app
from lab.cli.command_groups import Commands
from lab.cli.command_registry import COMMANDS
from lab.cli.machine.docs import PAGES

ROOT: Final = Path(__file__).parents[1]
CHAPTERS: Final = {
    "Start": ["quickstart", "install", "recipes", "tenant", "reading-counters", "filters", "ci", "glossary"],
    "The lab": [
        "topologies",
        "presets",
        "congestion-control",
        "emulation",
        "time",
        "port",
        "counters",
        "jobs",
        "job-network",
        "underlay",
        "overlay",
        "containerlab",
        "tools",
    ],
    "Packets": ["exchange", "reading-captures", "captures"],
    "Break it": [
        "faults",
        "scenarios",
        "recording",
        "diagnose",
        "drift",
        "lldp",
        "report",
        "compare",
        "live",
        "metrics",
        "alerts",
        "baseline",
        "mcp",
    ],
    "Your own": ["testing", "api", "modules", "commands"],
    "The project": ["architecture", "add-congestion-control", "bench", "CONTRIBUTING"],
}
"""Every page, in the order of a reader; one that is in none of them is a warning, which is an error."""
MODULES: Final = (
    "lab.testing.context",
    "lab.testing.fabric_fixture",
    "lab.testing.block_counters",
    "lab.testing.block_packets",
    "lab.scenario.api",
    "lab.scenario.stage",
    "lab.scenario.verdict",
    "lab.telemetry.read.recording",
    "lab.telemetry.read.series",
    "lab.errors",
)
SETTINGS: Final = {
    "project": "rocelab",
    "version": __version__,
    "release": __version__,
    "extensions": ["myst_parser", "sphinx.ext.autodoc"],
    "myst_enable_extensions": ["colon_fence"],
    "myst_heading_anchors": 3,
    "autodoc_default_options": {"members": True, "undoc-members": False, "inherited-members": False},
    "autodoc_typehints": "signature",
    "html_theme": "furo",
    "html_title": "rocelab",
}


def write_pages(source: Path) -> None:
    """All that the site is made of, as Markdown."""
    for page in (*PAGES.glob("*.md"), ROOT / "CONTRIBUTING.md"):
        shutil.copy(page, source)
    for picture in (*(ROOT / "topologies").glob("*.svg"), *PAGES.glob("*.png")):
        where = source / picture.relative_to(ROOT)
        where.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, where)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    trees = [_tree(title, pages) for title, pages in CHAPTERS.items()]
    (source / "index.md").write_text("\n\n".join([readme, *trees, ""]), encoding="utf-8")
    (source / "commands.md").write_text(commands(), encoding="utf-8")
    modules = "\n\n".join(f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```" for name in MODULES)
    (source / "modules.md").write_text(f"# Modules of the API\n\n{modules}\n", encoding="utf-8")


def _tree(title: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"])


def commands() -> str:
    """The help of every command, as a terminal of 100 columns shows it."""
    said = ["# Every command's help"]
    for name in sorted(COMMANDS):
        context = typer.Context(typer.main.get_command(app))
        command = Commands(name="rocelab").get_command(context, name)
        below = sorted(command.list_commands(context)) if isinstance(command, TyperGroup) else []
        for words in ([name], *([name, each] for each in below)):
            shown = CliRunner().invoke(app, [*words, "--help"], prog_name="rocelab", env={"COLUMNS": "100"}).stdout
            heading = "##" if len(words) == 1 else "###"
            said.append(f"{heading} rocelab {' '.join(words)}\n\n```text\n{shown.strip()}\n```")
    return "\n\n".join(said) + "\n"


def main() -> int:
    """Build it in the folder that is named; a warning is an error."""
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="rocelab-docs-") as folder:
        source, doctrees = Path(folder, "source"), Path(folder, "doctrees")
        source.mkdir()
        write_pages(source)
        site = Sphinx(
            source, None, target, doctrees, "html", confoverrides=SETTINGS, status=None, warningiserror=True,
            freshenv=True,
        )  # fmt: skip
        site.build()
    Console().print(f"{len(list(target.glob('*.html')))} pages: {target / 'index.html'}", highlight=False)
    return site.statuscode


if __name__ == "__main__":
    sys.exit(main())
