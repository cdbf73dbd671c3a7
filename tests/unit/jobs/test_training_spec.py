"""Files of training jobs: what they describe, and each kind of invalid file in one line with its remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from lab.errors import InvalidInput
from lab.jobs.rank_placement import PlacementRule
from lab.jobs.schedule_arithmetic import step_seconds
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training
from lab.model.load import load_topology

SMALL: Final = "ranks: 4\ncompute: 100ms\nallreduce: 1MiB\n"
PAGE: Final = Path(__file__).parents[3] / "lab/docs/jobs.md"


def test_a_file_needs_ranks_a_computation_and_gradients() -> None:
    spec = load_training(SMALL, "small.yaml")
    assert (spec.ranks, spec.hosts, spec.compute, spec.allreduce) == (4, None, 0.1, 2**20)
    assert (spec.name, spec.steps, spec.warmup, spec.placement) == ("training", 5, 1, PlacementRule.PACKED)


def test_a_host_may_be_slower_than_the_others() -> None:
    spec = load_training(SMALL.replace("ranks: 4", "hosts: [h1, h2]\nslower: {h2: 50ms}"), "small.yaml")
    assert spec.hosts == ["h1", "h2"]
    assert (spec.compute_of("h1"), spec.compute_of("h2")) == pytest.approx((0.1, 0.15))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty: begin with `ranks: 4`"),
        ("- 1", 1, "must be a mapping, not"),
        ("name: x\ngenerate: {shape: leaf-spine}\n", 2, "is a topology, not a training job: rocelab docs"),
        ("name: x\nnodes: []\nlinks: []\n", 2, "is a topology, not a training job: rocelab docs jobs has an example"),
        (SMALL.replace("compute: 100ms\n", ""), 1, "compute is missing"),
        (SMALL.replace("100ms", "100 years"), 2, "compute"),
        (SMALL.replace("100ms", "61s"), 2, "61 s is out of range"),
        (SMALL.replace("1MiB", "0"), 3, "allreduce 0 B is out of range"),
        (SMALL.replace("1MiB", "1GiB"), 3, "allreduce 1.074 GB is out of range"),
        (SMALL.replace("ranks: 4", "ranks: 1"), 1, "ranks"),
        (SMALL.replace("ranks: 4", "ranks: x"), 1, "ranks"),
        (SMALL.replace("ranks: 4\n", ""), 1, "ranks is missing: write either ranks: 4, or hosts"),
        (f"{SMALL}hosts: [h1, h2]\n", 1, "ranks is there beside hosts: write either"),
        (f"{SMALL}steps: 0\n", 4, "steps"),
        (f"{SMALL}steps: 10001\n", 4, "steps"),
        (f"{SMALL}algorithm: rings\n", 4, "algorithm allreduce has no algorithm 'rings': use auto, ring, tree"),
        (f"{SMALL}tclass: 256\n", 4, "tclass traffic class 256 is out of range: use 0 to 255"),
        (f"{SMALL}mtu: 1500\n", 4, "mtu 1500 is not known: choose 256, 512, 1024, 2048 or 4096"),
        (f"{SMALL}placement: pack\n", 4, "placement"),
        (f"{SMALL}stepz: 3\n", 4, "stepz is not a known key"),
        (f"{SMALL}slower: {{h1: fast}}\n", 4, "slower"),
        (f"{SMALL}name: 'a b'\n", 4, "name 'a b' is not a name: use up to 40 letters, digits, dots, hyphens and"),
        (f"{SMALL}name: {'x' * 41}\n", 4, "name 'x{41}' is not a name: use up to 40 letters"),
        (f"{SMALL}tensor: {{ranks: 3, allreduce: 1kB}}\n", 4, "tensor groups of 3 do not divide 4 ranks"),
        (
            f"{SMALL}pipeline: {{ranks: 3, activations: 1kB}}\n",
            4,
            "pipeline groups of 3 do not divide 4 tensor",
        ),
        (
            f"{SMALL}pipeline: {{ranks: 2, activations: 1kB}}\nlayers: 3\n",
            5,
            "layers 2 stages do not divide 3",
        ),
        (f"{SMALL}expert: {{ranks: 3, alltoall: 1kB}}\n", 4, "expert groups of 3 do not divide 4 data ranks"),
        (f"{SMALL}expert: {{ranks: 0, alltoall: 1kB}}\n", 4, "expert"),
        (f"{SMALL}tensor: {{ranks: 2, allreduce: 0}}\n", 4, "0 B is out of range"),
        (f"{SMALL}tensor: {{ranks: 2}}\n", 4, "allreduce is missing"),
        (f"{SMALL}data: {{ranks: 2}}\n", 4, "data tensor x data x pipeline is 2, and there are 4 ranks"),
        (f"{SMALL}tensor: {{ranks: 4, allreduce: 1kB}}\n", 3, "allreduce has no ranks that could sum gradients"),
        (f"{SMALL}data: {{overlap: true, buckets: 1}}\n", 4, "data cannot overlap one bucket"),
        (f"{SMALL}storage: {{host: h8}}\n", 4, "storage neither sends nor receives"),
        (f"{SMALL}storage: {{host: h8, load: 1kB, every: 0}}\n", 4, "every"),
        (f"{SMALL}storage: {{host: '', load: 1kB}}\n", 4, "host is too short: write at least 1 character"),
        (SMALL.replace("100ms", "-1ms"), 2, "compute"),
        (SMALL.replace("allreduce: 1MiB\n", ""), 1, "allreduce is missing: 4 data ranks have gradients to sum"),
        (SMALL.replace("1MiB", "8"), 3, "allreduce of 8 bytes has no element for each rank: use at least 16 bytes"),
        ("ranks: [1", 2, "is not valid YAML"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_training(text, "small.yaml")
    (problem,) = caught.value.problems
    assert re.search(message, f"{problem.path} {problem.message}: {problem.remedy}".strip())
    assert problem.line == line
    assert problem.remedy


def test_the_example_of_the_page_is_the_arithmetic_beside_it() -> None:
    """LLaMA-7B, every rate and size divided by 4,000: 6.7e9 gradients of 2 bytes, and GPU hours by steps."""
    text, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    spec = load_training(text, "llama-7b.yaml")
    assert spec.allreduce == 6.7e9 * 2 / 4000
    assert spec.compute == pytest.approx(82_432 * 3600 / (1.0e12 / 4e6) / 1024, abs=0.005)
    assert spec.algorithm == "ring"


@pytest.mark.parametrize(("name", "seconds"), [("megatron-145b", 2.88), ("mixtral-8x7b", 1.02)])
def test_the_arithmetic_of_an_example_is_that_of_the_page(name: str, seconds: float) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    spec = next(load_training(text, name) for text in examples if f"name: {name}" in text)
    schedule = training_schedule(spec, [f"h{number}" for number in range(spec.ranks or 0)])
    assert step_seconds(schedule, 0, 25_000_000) == pytest.approx(seconds, abs=0.005)


def test_the_other_examples_of_the_page_are_valid() -> None:
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if "generate:" in text:
            assert {link.rate for link in load_topology(text).links} == {25_000_000}
        else:
            assert load_training(text, "example").compute > 0
