"""Batches to columns: the header walk, opcode tables and filters, as arithmetic on whole columns."""
