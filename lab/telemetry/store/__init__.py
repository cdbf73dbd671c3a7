"""Storage: the raw log of a running recording, its sample layout, and the Parquet files it becomes."""
