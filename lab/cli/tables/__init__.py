"""Tables for the terminal: the output of commands without --json."""
