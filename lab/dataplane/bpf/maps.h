/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maps. User space sizes those of ports and nodes for its fabric before loading, and maps the first four into
 * its memory: a fabric's counters are read without a system call.
 */
#ifndef RL_MAPS_H
#define RL_MAPS_H

#include "kernel.h"
#include "limiters.h"
#include "port.h"

#define RL_CONTROL RL_CLASSES /* list of PFC frames: before all queues, never paused */
#define RL_WIRE (RL_CLASSES + 1) /* list of what has left the queues and not yet reached the far end */
#define RL_TOKEN (RL_CLASSES + 2) /* of a clock: the token, until it is due */
#define RL_SPARE (RL_CLASSES + 3) /* of a clock: what takes the token's place when it is lost */
#define RL_LATE (RL_CLASSES + 4) /* list of what others overtake in the cable */
#define RL_LISTS (RL_CLASSES + 5)

/* A place for one packet. Slots are linked by key + 1 into lists, so that 0 ends a list; all of a port's are
 * touched under its root qdisc's lock alone. */
struct rl_slot {
	struct sk_buff __kptr *skb;
	__u64 ready_at; /* on the wire: when it arrives; before, of a limited QP: the PSN of its BTH, with RL_ACK_REQUEST */
	__u32 next;
	__u32 len;
	__u32 from; /* ingress port that is charged for it; of what is overtaken: arrivals after which it goes */
	__u8 group;
	__u8 priority;
	__u8 charged;
	__u8 unused;
};

struct rl_list {
	__u32 head, tail;
};

/* What a port's qdisc remembers, under its lock; pauses are written by port_rx and only read there. */
struct rl_state {
	__u64 next_tx; /* when the link is free again */
	__u64 debt; /* ns of line time that late timers have cost and that is still to be made up for */
	__u64 pause_until[RL_CLASSES]; /* by queue */
	__u64 pause_end; /* when the last of them ends; 0 when the last word was to resume */
	__u64 blocked_since[RL_CLASSES];
	__u64 dropped_at[RL_CLASSES]; /* by queue: when the last packet was */
	__s64 deficit[RL_CLASSES];
	__u32 waiting; /* queues with a packet, one bit each, as all three: */
	__u32 blocked; /* those that a pause holds, and the watchdog watches */
	__u32 stormed; /* those that the watchdog has taken over */
	__u32 idle;
	__u32 free, fresh; /* slots: list of used ones that are free again, and the first never used */
	__u32 turn; /* DWRR: the queue being served */
	__u32 held; /* packets in the queues and in the control list */
	__u32 in_xoff; /* priority groups that the clock has to look at, one bit each */
	__u32 spares; /* of a clock: how many there are */
	__u32 on_wire; /* packets that the cable's delay holds, of which ... */
	__u32 late; /* ... so many are to be overtaken */
	__u32 arrived; /* of those that are not, how many have come to the cable's end */
	__u32 limited; /* of a NIC: QPs that are below the line rate */
	__u32 reviewed; /* of a NIC: limiters that have been looked at, whether their QPs have recovered */
	__u64 cnp_sent_at; /* when the last CNP was, where their minimum distance is the port's */
	__u64 wake; /* when the qdisc looks again; in memory, so that the verifier sees one value whatever set it */
	__u64 armed; /* when its timer fires, if that is still to come */
	__u64 reviewed_at; /* of a NIC: when a limiter has been looked at last */
	__u64 looked_at; /* of a NIC: when its qdisc has released packets of limited QPs last */
	__u64 due; /* of a NIC: no packet of a limited QP is due before; RL_NEVER: none waits for its time */
	__u32 disturbed; /* whether the cable is as rl_cable says; user space sets it */
	struct rl_list list[RL_LISTS];
};

/* What a fault makes of a cable, and what it has done: neither configuration nor counters of the port. */
struct rl_cable {
	__u64 seed;
	__u64 delay_ns; /* more than the link's own, PFC frames too */
	__u64 jitter_ns; /* more by up to so much, and in order */
	__u64 reorder; /* probability, in 1/2^32 */
	__u64 hold_ns; /* time after which a packet goes that is to be overtaken, and nothing comes */
	__u32 distance; /* packets that overtake it */
	__u32 priorities; /* whose packets have jitter, and are overtaken, one bit each */
	__u64 packets; /* so far, of these priorities; what befalls one depends on its number */
	__u64 reordered; /* were to be overtaken */
	__u64 timed_out; /* of these: went before so many had come */
};

/* All of a port that is not a lock or a packet, found by one look-up. */
struct rl_memory {
	struct rl_config config;
	struct rl_counters counters;
	struct rl_state state;
	struct rl_cable cable;
};

/* A priority group's bytes; ingress and every egress port of the switch meet here. */
struct rl_group {
	struct bpf_spin_lock lock;
	__u32 paused;
	__u64 bytes; /* of which ... */
	__u64 headroom; /* ... these came after XOFF, beyond the threshold */
	__u64 shared; /* taken of the pool */
	__u64 refresh_at;
	__u64 dropped_at; /* when the last packet was */
};

/* The newest acknowledgement of one queue pair that a port has received, or has sent. */
struct rl_ack_flow {
	struct bpf_spin_lock lock;
	__u32 newest_psn;
	__u64 newest_at;
	__u32 qpn, vni; /* of the requester, and of its tunnel */
	__u8 source[RL_ADDRESS], destination[RL_ADDRESS];
};

RL_ARRAY(ports, struct rl_memory, 1, BPF_F_MMAPABLE);
RL_ARRAY(nodes, struct rl_node, 1, BPF_F_MMAPABLE);
RL_ARRAY(events, struct rl_event, RL_EVENTS, BPF_F_MMAPABLE);
RL_ARRAY(event_count, __u64, 1, BPF_F_MMAPABLE);
RL_ARRAY(groups, struct rl_group, RL_CLASSES, 0); /* key: port * RL_CLASSES + group */
RL_ARRAY(slots, struct rl_slot, 1, 0); /* key: port * rl_slots + index */
RL_ARRAY(ack_flows, struct rl_ack_flow, 1, 0); /* key: (port * 2, + 1 for the egress) * RL_ACK_FLOWS + hash */

/*
 * The limiters of a NIC that have packets to send, the earliest first: a binary heap. An entry is when the first packet
 * is due, rounded up to RL_LIMITERS ns, and the limiter's index below that.
 */
struct rl_heap {
	__u32 count;
	__u32 cursor, turns; /* of the loop at work */
	__u32 vacant; /* the first has been taken off, and its place waits for the next that comes */
	__u64 due[RL_LIMITERS + 1]; /* behind the last entry is RL_NEVER */
};

RL_ARRAY(heaps, struct rl_heap, 1, 0); /* key: NIC */

const volatile __u32 rl_slots = 1; /* packets that one port may hold */

#define RL_OWN_SLOTS (rl_slots / 32) /* for each queue alone, besides RL_CONTROL_SLOTS */

/* Puts enumerations that no map mentions into the BTF, for user space to find. */
const volatile union {
	enum rl_size size;
	enum rl_drop drop;
	enum rl_event_kind event_kind;
	enum rl_cc_algorithm cc_algorithm;
	enum rl_cnp_moderation cnp_moderation;
} rl_spoken = {};

/* What a program works on: one port. */
struct rl_port {
	__u32 id;
	struct rl_memory *memory;
	struct rl_config *config;
	struct rl_counters *counters;
	struct rl_state *state;
	struct rl_cable *cable;
};

/* The port with this memory; its id stays unknown. */
static __always_inline bool rl_enter(struct rl_port *port, struct rl_memory *memory)
{
	if (!memory)
		return false;
	port->memory = memory;
	port->config = &memory->config;
	port->counters = &memory->counters;
	port->state = &memory->state;
	port->cable = &memory->cable;
	return true;
}

static __always_inline bool rl_find(struct rl_port *port, __u32 id)
{
	port->id = id;
	return rl_enter(port, bpf_map_lookup_elem(&ports, &id));
}

/* The port that a packet comes in by, or is about to leave by. A root qdisc of somebody else's may have any number. */
static __always_inline bool rl_find_at(struct rl_port *port, struct __sk_buff *skb)
{
	const struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);

	return rl_find(port, packet->dev->qdisc->handle >> 16) && port->config->index == skb->ifindex;
}

static __always_inline struct rl_group *rl_find_group(__u32 port, __u32 group)
{
	__u32 key = port * RL_CLASSES + (group & (RL_CLASSES - 1));

	return bpf_map_lookup_elem(&groups, &key);
}

static __always_inline struct rl_slot *rl_find_slot(__u32 link)
{
	__u32 key = link - 1;

	return link ? bpf_map_lookup_elem(&slots, &key) : NULL;
}

static __always_inline void rl_log_at(__u64 ns, __u32 port, enum rl_event_kind kind, __u32 index, __u64 value)
{
	__u32 zero = 0, key;
	__u64 number;
	__u64 *count = bpf_map_lookup_elem(&event_count, &zero);
	struct rl_event *event;

	if (!count)
		return;
	number = __sync_fetch_and_add(count, 1);
	key = number & (RL_EVENTS - 1);
	event = bpf_map_lookup_elem(&events, &key);
	if (!event)
		return;
	event->ns = ns;
	event->value = value;
	event->port = port;
	event->kind = kind;
	event->index = index;
	__sync_lock_test_and_set(&event->sequence, number + 1); /* a full barrier: no reader sees it before the rest */
}

static __always_inline void rl_log(__u32 port, enum rl_event_kind kind, __u32 index, __u64 value)
{
	rl_log_at(bpf_ktime_get_ns(), port, kind, index, value);
}

/* Drops come in bursts of thousands: the first of each is an event, all are counted. */
static __always_inline void rl_log_drop(__u64 *last, __u32 port, enum rl_event_kind kind, __u32 index, __u64 value)
{
	__u64 now = bpf_ktime_get_ns();

	if (!*last || now - *last > RL_DROPS_APART)
		rl_log_at(now, port, kind, index, value);
	*last = now;
}

#endif
