"""``python -m lab`` is the rocelab command."""

from __future__ import annotations

import importlib
import signal


def main() -> None:
    """Run ``lab.cli.app.main``. Ctrl-C while it is imported, which takes a second, ends the process at once.

    Nothing exists yet that would have to be cleaned up. ``lab.cli.app.main`` replaces the handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    importlib.import_module("lab.cli.app").main()


if __name__ == "__main__":
    main()
