"""What commands share: output, progress, options, completion, opening a running fabric."""
