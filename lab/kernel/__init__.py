"""Linux mechanism behind typed functions: the only room that uses pyroute2 and subprocess."""
