"""Build the VM image: Debian packages, locked Python packages, an initial RAM disk."""
