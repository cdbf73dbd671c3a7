"""What all answers are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """A mapping whose keys are all told."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)
