"""BPF objects: compile, load by libbpf, attach and pin them; read and write their maps as NumPy arrays."""
