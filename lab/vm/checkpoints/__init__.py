"""Checkpoints: saved states of a guest that later VMs continue from."""
