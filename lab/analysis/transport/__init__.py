"""The transport layer of flows: PSN tracking, messages, responses, NAKs, losses and their causes."""
