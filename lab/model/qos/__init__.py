"""What a port does with packets: classes, buffers, pause, marking, scheduling; as asked for, and resolved."""
