"""JSON of dataclasses whose fields all have defaults: only the fields that differ."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def dump(record: DataclassInstance) -> str:
    """Return the fields of ``record`` that differ from their defaults, as JSON; sets become sorted lists."""
    standard, kept = type(record)(), {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value != getattr(standard, field.name):
            kept[field.name] = sorted(value) if isinstance(value, AbstractSet) else value
    return json.dumps(kept)
