"""A small packet filter language: parsed once, then matched against frames or compiled for the kernel."""
