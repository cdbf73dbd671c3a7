"""The file of a training job: the groups of its ranks, and what a step computes, sends and stores.

::

    name: small
    ranks: 4
    steps: 5
    compute: 100ms
    allreduce: 1MiB
    tensor: {ranks: 2, allreduce: 64KiB}
    storage: {host: h8, checkpoint: 1MiB, every: 5}
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, PlainValidator, ValidationError

from lab.errors import InvalidInput, Problem, UsageError
from lab.jobs.job_spec import ALGORITHMS, AUTOMATIC, MAX_JOB_SIZE, MAX_STEPS, Collective
from lab.jobs.nccl_settings import NcclSettings, nccl_settings
from lab.jobs.rank_placement import PlacementRule
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.model.values.fields import SECTION, named, ranged
from lab.model.values.validate import explain
from lab.model.values.yamltext import format_path, read_yaml, show
from lab.rdma.measure import DEFAULT_TCLASS, check_tclass
from lab.units import format_size, format_time, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COMPUTE: Final = 60.0
"""Seconds of the longest computation of a step."""
MAX_RANKS: Final = 64
MAX_BUCKETS: Final = 64
MAX_LAYERS: Final = 256
MAX_MICROBATCHES: Final = 256
MAX_NAME: Final = 40
"""Characters of the longest name of a job."""
_NAME: Final = f"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}"
_MAX_PROBLEMS: Final = 50

_NAME_FORM: Final = f"use up to {MAX_NAME} letters, digits, dots, hyphens and underscores"

_Name = Annotated[str, PlainValidator(named(_NAME, MAX_NAME, "a name", _NAME_FORM))]
_Compute = Annotated[float, ranged(parse_time, format_time, (0.0, MAX_COMPUTE), "time", "100ms or 2s")]
_Octets = Annotated[int, ranged(parse_size, format_size, (ELEMENT_OCTETS, MAX_JOB_SIZE), "size", "1MiB")]


_Ranks = Annotated[int, Field(ge=1, le=MAX_RANKS)]


class DataGroups(BaseModel):
    """Ranks that have the same part of the model, and sum their gradients."""

    model_config = SECTION

    ranks: _Ranks | None = None
    """Ranks of a group; by default, what the other groups leave."""
    buckets: Annotated[int, Field(ge=1, le=MAX_BUCKETS)] = 4
    """Parts of the gradients, each with a sum of its own; complete ones are summed at the same time."""
    overlap: bool = False
    """Whether a bucket is summed while the backward pass still computes, as soon as it is complete."""
    shard: bool = False
    """Whether the sum is a reduce-scatter and an all-gather instead of an all-reduce (ZeRO, FSDP)."""


class TensorGroups(BaseModel):
    """Ranks that divide each layer: two sums in the forward pass of a layer, and two in the backward pass."""

    model_config = SECTION

    ranks: _Ranks
    allreduce: _Octets
    """Bytes of the activations of a micro-batch that each sum has."""


class PipelineGroups(BaseModel):
    """Ranks that divide the layers into stages, in the order 1F1B."""

    model_config = SECTION

    ranks: _Ranks
    activations: _Octets
    """Bytes of a micro-batch's activations, which a stage sends to the next one. Their gradients return."""
    microbatches: Annotated[int, Field(ge=1, le=MAX_MICROBATCHES)] = 1


class ExpertGroups(BaseModel):
    """Data ranks that divide the experts: in each layer, tokens go to their experts and return, in both passes."""

    model_config = SECTION

    ranks: _Ranks
    alltoall: _Octets
    """Bytes of the tokens that a rank sends to the experts of all ranks of its group."""


class Storage(BaseModel):
    """A host from which the first stage gets its batches, and to which all ranks write their checkpoints."""

    model_config = SECTION

    host: Annotated[str, Field(min_length=1)]
    """The host, or its NIC like h8:eth2."""
    load: _Octets | None = None
    """Bytes of a batch that each rank of the first stage gets at the begin of a step."""
    checkpoint: _Octets | None = None
    """Bytes that each rank writes after the step."""
    every: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 1
    """Steps from one checkpoint to the next."""


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
    allreduce: _Octets | None = None
    """Bytes of a rank's gradients, which the ranks of a data group sum in each step."""
    layers: Annotated[int | None, Field(ge=1, le=MAX_LAYERS)] = None
    """Layers of the model; by default, one for each stage of the pipeline."""
    data: DataGroups = Field(default_factory=DataGroups)
    tensor: TensorGroups | None = None
    pipeline: PipelineGroups | None = None
    expert: ExpertGroups | None = None
    storage: Storage | None = None
    algorithm: str = AUTOMATIC
    tclass: int = DEFAULT_TCLASS
    """IP traffic class of the RDMA packets: DSCP * 4 + ECN."""
    mtu: Literal[256, 512, 1024, 2048, 4096] | None = None
    """Path MTU of the QPs in bytes; by default, the smaller active MTU of both ends, which UCX exchanges."""
    nccl: dict[str, int | str] = Field(default_factory=dict)
    """Settings by their names in NCCL, for example ``{NCCL_IB_GID_INDEX: 1}``."""

    @property
    def settings(self) -> NcclSettings:
        """The settings of ``nccl``."""
        return nccl_settings(self.nccl)

    @property
    def tensor_ranks(self) -> int:
        """Ranks of a tensor group."""
        return self.tensor.ranks if self.tensor is not None else 1

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return self.pipeline.ranks if self.pipeline is not None else 1

    @property
    def expert_ranks(self) -> int:
        """Ranks of an expert group."""
        return self.expert.ranks if self.expert is not None else 1

    @property
    def microbatches(self) -> int:
        """Micro-batches of a step."""
        return self.pipeline.microbatches if self.pipeline is not None else 1

    @property
    def model_layers(self) -> int:
        """Layers of the model."""
        return self.stages if self.layers is None else self.layers

    @property
    def halves(self) -> int:
        """Parts of the computation of a layer, between which it communicates."""
        return 2 if self.tensor_ranks > 1 or self.expert_ranks > 1 else 1

    def data_ranks(self, ranks: int) -> int:
        """Return the ranks of a data group."""
        return ranks // (self.tensor_ranks * self.stages)

    def buckets(self, ranks: int) -> int:
        """Return the buckets of the gradients, each with at least one element for each data rank."""
        most = (self.allreduce or 0) // (ELEMENT_OCTETS * self.data_ranks(ranks))
        return max(1, min(self.data.buckets, most))

    def group_names(self, ranks: int) -> str:
        """Return the groups of ranks for a title, for example "tensor 2, data 4"."""
        sizes = {
            "tensor": self.tensor_ranks,
            "pipeline": self.stages,
            "expert": self.expert_ranks,
            "data": self.data_ranks(ranks),
        }
        return ", ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)

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
    if "compute" not in data and (keys := [key for key in ("generate", "nodes") if key in data]):
        line, remedy = document.line((keys[0],)), "rocelab docs jobs has an example"
        raise InvalidInput(source, [Problem("", "is a topology, not a training job", remedy, line=line)])
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
    tclass = spec.settings.tclass
    return spec if tclass is None else spec.model_copy(update={"tclass": tclass})


def _conflict(spec: TrainingSpec) -> tuple[str, str, str] | None:
    """Return the key, the message and the remedy of values that do not fit together."""
    if (spec.ranks is None) == (spec.hosts is None):
        what = "is missing" if spec.ranks is None else "is there beside hosts"
        return "ranks", what, "write either ranks: 4, or hosts: [h1, h2]"
    if spec.algorithm not in {AUTOMATIC, *ALGORITHMS[Collective.ALLREDUCE]}:
        known = ", ".join((AUTOMATIC, *ALGORITHMS[Collective.ALLREDUCE]))
        return "algorithm", f"allreduce has no algorithm {spec.algorithm!r}", f"use {known}"
    wrong = _setting_conflict(spec)
    if wrong is not None:
        return wrong
    storage = spec.storage
    if storage is not None and storage.load is None and storage.checkpoint is None:
        return "storage", "neither sends nor receives", "write load: 256KiB or checkpoint: 1MiB"
    if spec.data.overlap and spec.data.buckets == 1:
        return "data", "cannot overlap one bucket with the computation", "write buckets: 4"
    return group_conflict(spec, spec.ranks if spec.ranks is not None else len(spec.hosts or ()))


def _setting_conflict(spec: TrainingSpec) -> tuple[str, str, str] | None:
    """Return the key, the message and the remedy of a wrong traffic class or setting of NCCL; or None."""
    try:
        check_tclass(spec.tclass)
    except UsageError as error:
        return "tclass", error.message, error.remedy
    try:
        tclass = spec.settings.tclass
    except UsageError as error:
        return "nccl", error.message, error.remedy
    if tclass is not None and "tclass" in spec.model_fields_set:
        return "tclass", "is there beside NCCL_IB_TC", "write one of them"
    return None


def group_conflict(spec: TrainingSpec, ranks: int) -> tuple[str, str, str] | None:
    """Return the key, the message and the remedy of groups that do not divide the ranks or each other; or None."""
    for key, size, total, of in (
        ("tensor", spec.tensor_ranks, ranks, "ranks"),
        ("pipeline", spec.stages, ranks // spec.tensor_ranks, "tensor groups"),
        ("expert", spec.expert_ranks, spec.data_ranks(ranks), "data ranks"),
        ("layers", spec.stages, spec.model_layers, "layers"),
    ):
        if not total or total % size:
            what = f"groups of {size}" if key != "layers" else f"{size} stages"
            return key, f"{what} do not divide {total} {of}", f"use a divisor of {total}"
    data = spec.data_ranks(ranks)
    if spec.data.ranks not in {None, data}:
        needed = spec.tensor_ranks * (spec.data.ranks or 1) * spec.stages
        product = f"tensor x data x pipeline is {needed}, and there are {ranks} ranks"
        return "data", product, f"write ranks: {data} there, or leave it out"
    if spec.allreduce is None and data > 1:
        return "allreduce", f"is missing: {data} data ranks have gradients to sum", "write allreduce: 1MiB"
    if spec.allreduce is not None and data == 1:
        return "allreduce", "has no ranks that could sum gradients: each is alone in its data group", "leave it out"
    least = ELEMENT_OCTETS * data
    if spec.allreduce is not None and spec.allreduce < least:
        return "allreduce", f"of {spec.allreduce} bytes has no element for each rank", f"use at least {least} bytes"
    return None


@cache
def _schema() -> Mapping[str, Any]:
    return TrainingSpec.model_json_schema()
