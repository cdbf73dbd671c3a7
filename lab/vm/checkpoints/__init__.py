"""Checkpoints: saved states of a guest from which later VMs resume."""
