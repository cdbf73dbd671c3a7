"""Paths between hosts, hop by hop, as each node's kernel forwards them; through tunnels, too."""
