"""Work in a thread of its own, by those who may not enter a namespace."""

from typing import NoReturn

import pytest

from lab.kernel.process import libc
from lab.kernel.process.threads import in_thread


def test_who_does_not_move_does_not_have_to_be_allowed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> NoReturn:
        raise PermissionError

    monkeypatch.setattr(libc, "setns", refused)
    assert in_thread(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 // 0)
