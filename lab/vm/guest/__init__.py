"""The guest's side of calls: the agent, sessions and their standard streams."""
