"""What happened on a fabric, kept: the sampler, recordings, and the reader that judges them later."""
