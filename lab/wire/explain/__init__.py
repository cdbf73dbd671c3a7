"""Explain frames: header by header, what each value means, drawn as the RFCs draw headers."""
