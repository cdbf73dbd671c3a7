"""What this machine can do for rocelab, where the rest would work, and the one command that mends each lack."""
