"""A Docker that is a script with a list of containers: it lists them, and removes them from its list."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DOCKER = f"""#!{sys.executable}
import json, pathlib, sys
kept = pathlib.Path(__file__).with_name("containers.json")
if not kept.exists():
    sys.exit("Cannot connect to the Docker daemon. Is the docker daemon running?")
word, *words = sys.argv[1:]
boxes = json.loads(kept.read_text())
if word == "ps":
    asked = [word.removeprefix("label=").partition("=") for word in words if word.startswith("label=")]
    print(*[
        box["id"] for box in boxes
        if all(name in box["labels"] and value in ("", box["labels"][name]) for name, _, value in asked)
    ])
elif word == "inspect" and "clab-topo-file" in words[1]:
    print("/labs/theirs.clab.yml")
elif word == "inspect":
    for box in boxes:
        if box["id"] in words:
            print(box["pid"], "/" + box["name"], box["labels"]["clab-node-name"])
elif word == "rm":
    kept.write_text(json.dumps([box for box in boxes if box["name"] not in words or box.get("stuck")]))
elif word == "logs":
    print("first\\nexec: no such program", file=sys.stderr)
"""


class Docker:
    """Containers of the script, which is the first ``docker`` that is found."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "containers.json"
        (folder / "docker").write_text(DOCKER)
        (folder / "docker").chmod(0o755)
        self._kept.write_text("[]")

    def add(self, lab: str, node: str, owner: str = "", pid: int = 1, *, stuck: bool = False) -> None:
        labels = {"containerlab": lab, "clab-node-name": node, **({"rocelab.owner": owner} if owner else {})}
        box = {"id": f"{len(self.left)}d", "name": f"clab-{lab}-{node}", "pid": pid, "labels": labels, "stuck": stuck}
        self._kept.write_text(json.dumps([*json.loads(self._kept.read_text()), box]))

    @property
    def left(self) -> list[str]:
        return [box["name"] for box in json.loads(self._kept.read_text())]

    def stop(self) -> None:
        self._kept.unlink()
