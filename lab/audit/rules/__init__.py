"""Rules that hold in any fabric: about links, sessions, routes, addresses and ports."""
