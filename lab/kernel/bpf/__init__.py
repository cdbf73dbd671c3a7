"""BPF objects: compiled, loaded through libbpf, attached, pinned; their maps as NumPy arrays."""
