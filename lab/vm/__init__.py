"""The kernel rocelab needs, brought along: build a small Debian guest, boot it, run commands in it."""
