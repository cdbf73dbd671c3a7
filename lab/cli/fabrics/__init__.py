"""Commands about fabrics and their files: topology, up, down, status, path, exec, import and export."""
