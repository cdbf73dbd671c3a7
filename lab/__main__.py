"""``python -m lab`` is the rocelab command."""

from lab.cli.app import main

main()
