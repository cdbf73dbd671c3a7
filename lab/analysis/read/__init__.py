"""Read capture files into batches of packets: pcap and pcapng, link types, mirror encapsulations, single records."""
