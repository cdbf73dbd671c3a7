"""Commands about packets: capture, craft, dissect, analyze, follow, extcap."""
