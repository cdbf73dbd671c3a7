"""The kinds of audited objects: those of the kernel, of routing daemons, and of devices."""
