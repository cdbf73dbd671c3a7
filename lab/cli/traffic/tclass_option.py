"""The option ``--tclass`` of the commands that send RDMA packets."""

from __future__ import annotations

from typing import Annotated

import typer

TclassOption = Annotated[int, typer.Option(help="IP traffic class: DSCP * 4 + ECN. 106 is DSCP 26 and ECT(0).")]
