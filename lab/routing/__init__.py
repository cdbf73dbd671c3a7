"""FRR: configuration as a pure function of the plan, daemons, and what they say."""
