"""Names of files about several recordings: unique, and as short as possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.kit.run_name import file_stems


@pytest.mark.parametrize(
    ("runs", "stems"),
    [
        (["/x/run"], ["run"]),
        (["/a/run", "/b/run"], ["a-run", "b-run"]),
        (["/a/run", "/b/run", "/c/other"], ["a-run", "b-run", "other"]),
        (["/x/a/run", "/y/a/run"], ["x-a-run", "y-a-run"]),
        (["/a/run", "/b/run", "/c/a-run"], ["a-run", "b-run", "a-run-2"]),
        (["/a/index"], ["index-2"]),
        (["/run", "/a/run"], ["run", "a-run"]),
    ],
)
def test_each_has_a_name_of_its_own(runs: list[str], stems: list[str]) -> None:
    assert file_stems([Path(run) for run in runs], reserved={"index"}) == stems
