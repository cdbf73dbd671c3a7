"""Explain frames header by header: the meaning of each value, and figures in the style of RFCs."""
