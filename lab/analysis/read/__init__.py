"""Capture files to batches of packets: pcap and pcapng, link types, mirror encapsulations, single records."""
