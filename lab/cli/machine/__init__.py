"""Commands about the machine: doctor, docs, vm and its checkpoints."""
