"""The file of a training job: data-parallel steps, in which all ranks compute and then sum their gradients.

::

    name: small
    ranks: 4
    steps: 5
    compute: 100ms
    allreduce: 1MiB
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, PlainValidator, ValidationError

from lab.errors import InvalidInput, Problem, UsageError
from lab.jobs.job_spec import AUTOMATIC, MAX_JOB_SIZE, MAX_STEPS, Collective, JobSpec
from lab.jobs.rank_placement import PlacementRule
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.model.values.fields import SECTION, named, ranged
from lab.model.values.validate import explain
from lab.model.values.yamltext import format_path, read_yaml, show
from lab.rdma.measure import DEFAULT_TCLASS
from lab.units import format_size, format_time, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COMPUTE: Final = 60.0
"""Seconds of the longest computation of a step."""
MAX_RANKS: Final = 64
_LONGEST_NAME: Final = 40
_NAME: Final = f"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST_NAME - 1}}}"
_MAX_PROBLEMS: Final = 50

_NAME_FORM: Final = f"use up to {_LONGEST_NAME} letters, digits, dots, hyphens and underscores"

_Name = Annotated[str, PlainValidator(named(_NAME, _LONGEST_NAME, "a name", _NAME_FORM))]
_Compute = Annotated[float, ranged(parse_time, format_time, (0.0, MAX_COMPUTE), "time", "100ms or 2s")]
_Octets = Annotated[int, ranged(parse_size, format_size, (ELEMENT_OCTETS, MAX_JOB_SIZE), "size", "1MiB")]


class TrainingSpec(BaseModel):
    """A training job: its ranks, and what each of its steps does."""

    model_config = SECTION

    name: _Name = "training"
    ranks: Annotated[int | None, Field(ge=2, le=MAX_RANKS)] = None
    """Number of ranks, each on a host of its own."""
    hosts: Annotated[list[str] | None, Field(min_length=2, max_length=MAX_RANKS)] = None
    """Instead of ranks: the hosts, rank 0 first, or their NICs like h1:eth2."""
    placement: Annotated[PlacementRule, Field(strict=False)] = PlacementRule.PACKED
    seed: int = 0
    """The seed of a random placement."""
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 5
    """Measured steps."""
    warmup: Annotated[int, Field(ge=0, le=MAX_STEPS)] = 1
    """Steps before the measured ones."""
    compute: _Compute
    """Time of the computation of a step, forward and backward, in which a rank sends nothing."""
    slower: dict[str, _Compute] = Field(default_factory=dict)
    """Additional time of the computation on single hosts."""
    allreduce: _Octets
    """Bytes of the gradients, which all ranks sum after each computation."""
    algorithm: str = AUTOMATIC
    tclass: int = DEFAULT_TCLASS
    """IP traffic class of the RDMA packets: DSCP * 4 + ECN."""

    @property
    def job(self) -> JobSpec:
        """The collective of a step; UsageError if it has no such algorithm."""
        return JobSpec(
            collective=Collective.ALLREDUCE,
            sizes=(self.allreduce,),
            iterations=self.steps,
            warmup=self.warmup,
            algorithm=self.algorithm,
            tclass=self.tclass,
        )

    def compute_of(self, host: str) -> float:
        """Return the seconds of a step's computation on a host."""
        return self.compute + self.slower.get(host, 0.0)


def load_training(text: str, source: str) -> TrainingSpec:
    """Return the job that ``text`` describes. InvalidInput has all problems, by line in ``source``."""
    document = read_yaml(text, source)
    if document.problems:
        raise InvalidInput(source, document.problems)
    data = document.data
    if not isinstance(data, dict):
        what = "is empty" if data is None else f"must be a mapping, not {show(data)}"
        raise InvalidInput(source, [Problem("", what, "begin with `ranks: 4`", line=1)])
    try:
        spec = TrainingSpec.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems = [
            Problem(format_path(path), message, remedy, line=document.line(path))
            for path, message, remedy in explain(error, data, _schema())
        ]
        raise InvalidInput(source, sorted(problems, key=lambda each: each.line)[:_MAX_PROBLEMS]) from error
    found = _conflict(spec)
    if found is not None:
        key, message, remedy = found
        raise InvalidInput(source, [Problem(key, message, remedy, line=document.line((key,)))])
    return spec


def _conflict(spec: TrainingSpec) -> tuple[str, str, str] | None:
    """Return the key, the message and the remedy of values that do not fit together."""
    if (spec.ranks is None) == (spec.hosts is None):
        what = "is missing" if spec.ranks is None else "is there beside hosts"
        return "ranks", what, "write either ranks: 4, or hosts: [h1, h2]"
    try:
        spec.job  # noqa: B018 - it checks the algorithm and the traffic class
    except UsageError as error:
        return ("tclass" if "traffic class" in error.message else "algorithm"), error.message, error.remedy
    return None


@cache
def _schema() -> Mapping[str, Any]:
    return TrainingSpec.model_json_schema()
