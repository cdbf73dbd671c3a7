"""Have containerlab itself read what we export: ``python -m tests.real_containerlab BINARY [TOPOLOGY]...``, by hand.

It wants a Docker daemon before it reads anything. The server here answers as one with nothing in it, so that a lab is
parsed, checked and planned, and not deployed. Go builds the binary: github.com/srl-labs/containerlab.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

from lab.export.containerlab import Images, export_lab
from lab.export.folder import write
from lab.model.load import read_topology
from tests.unit.export.conftest import FABRICS

VERSION = {"Version": "28.0.0", "ApiVersion": "1.48", "MinAPIVersion": "1.24"}


class EmptyDocker(BaseHTTPRequestHandler):
    """Docker's API, of a daemon that has nothing."""

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        said = (
            VERSION if path.endswith("/version") else [] if path.endswith("/containers/json") else {"message": "none"}
        )
        known = path.endswith(("/_ping", "/version", "/containers/json"))
        body = json.dumps(said).encode()
        self.send_response(200 if known else 404)
        self.send_header("Api-Version", VERSION["ApiVersion"])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - http.server finds them by these names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def containerlab(binary: str, socket: Path, *words: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "DOCKER_HOST": f"unix://{socket}"}
    # A network namespace of its own: whatever it does, it does there.
    command = ["unshare", "--net", binary, *words]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60, check=False)


def check(binary: str, socket: Path, source: Path, folder: Path) -> None:
    """Its plan is a deployment, its picture has our links, and a lab whose file is gone is refused."""
    topology = read_topology(source)
    write(export_lab(topology, Images()), folder)
    lab = str(folder / "clab.yml")
    planned = containerlab(binary, socket, "deploy", "--dry-run", "--format", "json", "-t", lab)
    assert planned.returncode == 0, planned.stderr
    drawn = containerlab(binary, socket, "graph", "--mermaid", "-t", lab)
    assert drawn.returncode == 0, drawn.stderr
    (picture,) = folder.glob("clab-*/graph/*.mermaid")
    edges = sorted(sorted(pair) for pair in re.findall(r"^\s*(\S+?)---(\S+)\s*$", picture.read_text(), re.MULTILINE))
    assert edges == sorted(sorted(end.node for end in link.ends) for link in topology.links)
    (folder / topology.nodes[0].name / "start.sh").unlink()
    refused = containerlab(binary, socket, "deploy", "--dry-run", "-t", lab)
    assert refused.returncode, "a lab without one of its files is taken"
    print(f"{source.name}: {len(topology.nodes)} nodes, {len(edges)} links")


def main(binary: str, *sources: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        socket = Path(place, "docker.sock")
        with ThreadingUnixStreamServer(str(socket), EmptyDocker) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for source in map(Path, sources) if sources else FABRICS:
                check(binary, socket, source, Path(place, source.stem))
            server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
