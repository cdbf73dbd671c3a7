"""``python -m lab`` is the rocelab command."""

from lab.cli.main import main

main()
