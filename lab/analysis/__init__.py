"""From captures to facts: streaming, by columns, in memory that does not grow with the file. Pure; no root."""
