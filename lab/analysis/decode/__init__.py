"""Decode batches to columns: header walk, opcode tables and filters, computed on whole columns."""
