/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the impairment's program and user space agree upon: what is asked for, which is fixed when the program is loaded,
 * and what it has done. User space reads all of it, names too, in impair.bpf.layout.json, generated from the object's
 * BTF (lab/dataplane/impair_layout.py).
 */
#ifndef RL_IMPAIR_H
#define RL_IMPAIR_H

#include <linux/types.h>

enum rl_impair_size {
	RL_IMPAIR_DSCPS = 64,
	RL_IMPAIR_OPCODES = 256,
	RL_IMPAIR_OPCODE_WORDS = RL_IMPAIR_OPCODES / 64,
	RL_IMPAIR_ANY = 0xffff, /* of `ip_id`, `protocol`, `set_dscp`: none is asked for */
};

/* What a packet is, one bit each. */
enum rl_traffic {
	RL_TRAFFIC_ROCE = 1, /* RoCEv2 */
	RL_TRAFFIC_OTHER = 2, /* any other IP packet but ... */
	RL_TRAFFIC_CONTROL = 4, /* ... what finds neighbours and routes; and what is no IP packet */
	RL_TRAFFIC_PAUSES = 8, /* MAC control: PFC frames and pauses */
};

/* Which of a packet's random numbers decides what. */
enum rl_stream {
	RL_STREAM_LOSS,
	RL_STREAM_FRAME,
	RL_STREAM_PAYLOAD,
	RL_STREAM_PLACE, /* of the bit that is flipped */
	RL_STREAM_DUPLICATE,
};

struct rl_impairment {
	__u64 seed;
	__u64 dscps; /* of IP packets, one bit each; all: of others too */
	__u64 opcodes[RL_IMPAIR_OPCODE_WORDS]; /* of RoCEv2 packets, one bit each; all: others too */
	__u64 loss; /* probabilities, in 1/2^32 */
	__u64 corrupt_frame;
	__u64 corrupt_payload;
	__u64 duplicate;
	__u64 lose_every; /* packets of which the last is lost; 0: none is */
	__u32 min_size; /* bytes of the IP packet, of others those behind their Ethernet header */
	__u16 port; /* destination port of TCP or UDP; 0: any */
	__u16 protocol; /* of IP */
	__u16 ip_id; /* lowest octet of an IPv4 packet's identification */
	__u16 set_dscp;
	__u8 pcps; /* one bit each; all: packets without a tag too */
	__u8 traffic; /* enum rl_traffic */
	__u8 clear_ecn;
	__u8 place; /* among those of the hook: lower ones come first */
};

struct rl_truth {
	__u64 seen;
	__u64 matched;
	__u64 lost;
	__u64 corrupted_frames; /* lost, too: no MAC hands on what its FCS does not fit */
	__u64 corrupted_payloads;
	__u64 dscp_rewritten;
	__u64 ecn_cleared;
	__u64 duplicated;
	__u64 failed; /* changes that could not be made for want of memory */
	__u64 struck_bytes; /* of the frames of all that was lost, corrupted, changed or duplicated */
	__u64 dscp_matched[RL_IMPAIR_DSCPS], dscp_struck[RL_IMPAIR_DSCPS];
	__u64 opcode_matched[RL_IMPAIR_OPCODES], opcode_struck[RL_IMPAIR_OPCODES];
};

#endif
