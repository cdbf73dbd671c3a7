/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A port's packets: lists of slots, all under the root qdisc's lock.
 */
#ifndef RL_QUEUE_H
#define RL_QUEUE_H

#include "buffer.h"
#include "mark.h"

#define RL_NEVER (~0ull)
#define RL_LOOPBACK 1 /* index of `lo` in every namespace */
#define RL_CLOCKS_APART 1000ull /* ns by which bpf_ktime_get_ns may be behind the clock of a timer */

/* A qdisc that has to wait tells the kernel when to wake it. */
static __always_inline void rl_wake(__u64 *wake, __u64 at)
{
	if (at < *wake)
		*wake = at;
}

/*
 * Nothing may leave now: have the timer fire when something may. While QPs are limited, one that fires earlier is left as
 * it is, because setting it costs more than looking once too often. One that fires after `now` has been read has the
 * kernel look again. It may have fired just before, by the clock of another CPU, if it was set for RL_CLOCKS_APART from
 * now. Without packets the link may be down, and then the kernel sets no timer: `armed` must not name one.
 */
static __always_inline void rl_sleep(const struct rl_port *port, struct Qdisc *sch, __u64 now)
{
	struct rl_state *state = port->state;

	if (state->wake == RL_NEVER ||
	    (state->limited && state->armed > now + RL_CLOCKS_APART && state->armed <= state->wake))
		return;
	bpf_qdisc_watchdog_schedule(sch, state->wake, 0);
	state->armed = sch->q.qlen ? state->wake : 0;
}

/*
 * Whether a data packet may have a slot. The bytes of a buffer are shared by rules of its own (buffer.h); these keep
 * small packets of one class from taking the places of the others.
 *
 *      |-- shared, half of it by lossy priorities as well --|-- each queue's own --|-- control --|
 *
 * What is in a cable with delay counts for all: when it is most of a port's packets, a queue's own are not sure.
 */
static __always_inline bool rl_has_slot(const struct rl_port *port, __u32 queue, bool lossless)
{
	__u32 shared = rl_slots - RL_CONTROL_SLOTS - RL_CLASSES * RL_OWN_SLOTS;
	__u32 held = port->state->held + port->state->on_wire;

	if (held < (lossless ? shared : shared / 2))
		return true;
	return port->counters->queue[queue].depth_packets < RL_OWN_SLOTS && held < rl_slots - RL_CONTROL_SLOTS;
}

/* A free slot and its link, or NULL. */
static __always_inline struct rl_slot *rl_slot_take(const struct rl_port *port, __u32 *link)
{
	struct rl_state *state = port->state;
	struct rl_slot *slot;

	*link = state->free;
	if (!*link) {
		if (state->fresh >= rl_slots)
			return NULL;
		*link = port->id * rl_slots + ++state->fresh;
		return rl_find_slot(*link);
	}
	slot = rl_find_slot(*link);
	if (slot)
		state->free = slot->next;
	return slot;
}

static __always_inline void rl_slot_give(const struct rl_port *port, struct rl_slot *slot, __u32 link)
{
	slot->next = port->state->free;
	port->state->free = link;
}

static __always_inline void rl_append(const struct rl_port *port, __u32 list, struct rl_slot *slot, __u32 link)
{
	struct rl_list *to = &port->state->list[list < RL_LISTS ? list : 0];
	struct rl_slot *last = rl_find_slot(to->tail);

	slot->next = 0;
	if (last)
		last->next = link;
	else
		to->head = link;
	to->tail = link;
}

static __always_inline struct rl_slot *rl_unlink(const struct rl_port *port, __u32 list)
{
	struct rl_list *from = &port->state->list[list < RL_LISTS ? list : 0];
	struct rl_slot *slot = rl_find_slot(from->head);

	if (slot) {
		from->head = slot->next;
		if (!slot->next)
			from->tail = 0;
	}
	return slot;
}

/* A packet has left a list. If it was the queue's last, nothing of it waits any longer, nor is blocked. */
static __always_inline void rl_note_left(const struct rl_port *port, __u32 list)
{
	if (list >= RL_CLASSES || port->state->list[list].head)
		return;
	port->state->waiting &= ~(1u << list);
	port->state->blocked &= ~(1u << list);
}

static __always_inline struct rl_node *rl_find_node(const struct rl_port *port)
{
	__u32 key = port->config->node;

	return bpf_map_lookup_elem(&nodes, &key);
}

static __always_inline void rl_count_drop(const struct rl_port *port, struct Qdisc *sch, __u32 queue, __u32 reason,
					  __u32 len)
{
	struct rl_queue_counters *count = &port->counters->queue[queue & (RL_CLASSES - 1)];

	if (reason < RL_DROPS) {
		count->drop_packets[reason]++;
		count->drop_bytes[reason] += len;
	}
	rl_log_drop(&port->state->dropped_at[queue & (RL_CLASSES - 1)], port->id, RL_EVENT_QUEUE_DROPS, queue, reason);
	sch->qstats.drops++;
}

/* Whether a port is its node's clock. */
static __always_inline bool rl_is_clock(const struct rl_port *port)
{
	return port->config->index == RL_LOOPBACK;
}

/* Give a packet's bytes back to the group that it came in by. */
static __always_inline void rl_discharge(const struct rl_port *port, struct rl_slot *slot)
{
	struct rl_node *node = slot->charged ? rl_find_node(port) : NULL;
	struct rl_port ingress;

	if (node && rl_find(&ingress, slot->from))
		rl_release(&ingress, node, slot->group, slot->len);
	slot->charged = 0;
}

/* A packet leaves its queue, for the wire or for good. */
static __always_inline void rl_leave(const struct rl_port *port, __u32 list, struct rl_slot *slot)
{
	port->state->held--;
	if (list < RL_CLASSES) {
		port->counters->queue[list].depth_bytes -= slot->len;
		port->counters->queue[list].depth_packets--;
	}
	rl_discharge(port, slot);
}

#endif
