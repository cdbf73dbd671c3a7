"""How long tests wait for what has to come. It is judged by nobody: where it runs out, nothing comes any more."""

from typing import Final

PATIENCE: Final = 240.0
"""Seconds: a disk that is busy with others' gigabytes holds a file system's journal for tens of them."""
