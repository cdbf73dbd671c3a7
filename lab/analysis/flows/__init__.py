"""Columns to flows: one direction to one QP per link, streams over all links, and the pairing of QPs."""
