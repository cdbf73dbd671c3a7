"""A small language that chooses packets: parsed once, matched against frames here, or by a program in the kernel."""
