"""The description of every kind of fault."""

import inspect
from pathlib import Path

import pytest

from lab.faults import kinds
from lab.faults.catalogue import KINDS
from lab.faults.fault import Fault


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_tells_what_it_is_and_what_each_parameter_means(kind: type[Fault[object]]) -> None:  # type: ignore[type-var]
    assert kind.__doc__
    assert len(kind.summary()) > 20
    assert not inspect.isabstract(kind)
    for name, field in kind.parameters.model_fields.items():
        assert field.description, name


def test_every_kind_that_is_written_is_listed() -> None:
    written = {
        line.split('"')[1]
        for file in Path(kinds.__file__).parent.glob("*.py")
        for line in file.read_text().splitlines()
        if line.startswith('    name: ClassVar = "')
    }
    assert written == set(KINDS)
