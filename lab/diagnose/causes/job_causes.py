"""Rows of the table of causes: what slows a training job down, and is no fault of the network."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import host_symptoms

JOB_CAUSES: Final = (
    Cause(
        "straggler-host", "a host computes more slowly than the others, and all ranks wait for it",
        needs=(host_symptoms.a_host_computes_slowly,),
        rival="slow-receiver",
        tell="rocelab job explain RUN: the rank's computation is longer, and its transfer is not",
        fix="look at {node}'s clocks, temperature, CPU load and input pipeline, or place its rank elsewhere",
        words="Its computation takes longer in most steps, in which it sends nothing: the network has no part in it."
        " A collective ends only when the last rank has contributed, so the whole job is as slow as this host.",
    ),
)  # fmt: skip
