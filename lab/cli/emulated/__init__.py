"""Common tools of NICs and switches that show the emulated ports: ``rocelab docs tools``.

``rocelab exec`` and ``shell`` put ``bin`` first in the PATH of a node. Each command there starts ``__main__``, which
uses the same counters and settings as ``rocelab counters`` and ``qos show``, or runs the real tool.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

COMMANDS: Final = Path(__file__).with_name("bin")
"""The folder of the commands."""
NODE: Final = "ROCELAB_NODE"
FABRIC: Final = "ROCELAB_FABRIC"
PYTHON: Final = "ROCELAB_PYTHON"
FOLDER: Final = "ROCELAB_COMMANDS"
"""Environment variables of the commands: their node, fabric, Python interpreter, and folder in PATH."""
