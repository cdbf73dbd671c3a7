/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of a packet that is to leave by a port: the list that takes it, or why none does.
 */
#ifndef RL_ADMIT_H
#define RL_ADMIT_H

#include "pfc.h"
#include "schedule.h"

/* Room for a data packet: the queue that takes it, or RL_LISTS and the reason why none does. */
static __always_inline int rl_admit(const struct rl_port *port, struct rl_slot *slot, __u32 queue)
{
	const struct rl_queue_config *config = &port->config->queue[queue];
	bool lossless = port->config->lossless >> slot->priority & 1;
	struct rl_group *group;
	struct rl_port ingress;
	struct rl_node *node;
	int refused;

	if (port->state->stormed >> queue & 1 && !port->config->watchdog_forward)
		return RL_DROP_WATCHDOG;
	if (!rl_has_slot(port, queue, lossless))
		return RL_DROP_SLOTS;
	if (config->limit && !lossless &&
	    port->counters->queue[queue].depth_bytes + slot->len > config->limit)
		return RL_DROP_LIMIT;
	node = slot->from < RL_LIMITED ? rl_find_node(port) : NULL;
	if (!node || !rl_find(&ingress, slot->from))
		return -1;
	slot->group = ingress.config->priority_to_group[slot->priority & (RL_CLASSES - 1)];
	if (!port->state->held && rl_is_open(port) && rl_has_room(&ingress, node, slot->group, slot->len))
		return -1;
	refused = rl_charge(&ingress, node, slot->group, slot->len);
	slot->charged = refused < 0;
	if (refused >= 0 && (group = rl_find_group(ingress.id, slot->group)))
		rl_log_drop(&group->dropped_at, ingress.id, RL_EVENT_GROUP_DROPS, slot->group, port->id);
	return refused;
}

static __always_inline void rl_count_queued(const struct rl_port *port, __u32 queue, __u32 len)
{
	struct rl_queue_counters *count = &port->counters->queue[queue];

	count->depth_bytes += len;
	count->depth_packets++;
	if (count->depth_bytes > count->watermark_bytes)
		count->watermark_bytes = count->depth_bytes;
}

/* The list for a packet on a clock. */
static __always_inline __u32 rl_place_at_clock(const struct rl_port *clock, struct rl_slot *slot, enum rl_kind kind)
{
	struct rl_node *node = rl_find_node(clock);

	if (kind == RL_KIND_TOKEN && node) {
		slot->ready_at = node->tick_at;
		return RL_TOKEN;
	}
	if (kind == RL_KIND_SPARE) {
		clock->state->spares++;
		return RL_SPARE;
	}
	if (!rl_has_slot(clock, 0, false))
		return RL_LISTS;
	clock->counters->other_packets++;
	return RL_CONTROL;
}

/* The list for a packet; for data that is refused RL_LISTS, already counted. */
static __always_inline __u32 rl_place(const struct rl_port *port, struct Qdisc *sch, struct rl_slot *slot, __u32 mark)
{
	enum rl_kind kind = rl_mark_kind(mark);
	struct rl_queue_counters *count;
	__u32 queue;
	int refused;

	slot->charged = 0;
	slot->priority = rl_mark_priority(mark);
	slot->from = kind == RL_KIND_DATA ? rl_mark_low(mark) : RL_NO_PORT;
	if (kind == RL_KIND_PFC) {
		/* Two CPUs may send at once; what enters last must say how it is. */
		if (rl_is_stale(port->id, rl_mark_priority(mark), rl_mark_low(mark) & RL_XOFF))
			return RL_LISTS;
		slot->priority = RL_CLASSES;
		return RL_CONTROL;
	}
	if (rl_is_clock(port))
		return rl_place_at_clock(port, slot, kind);
	queue = port->config->priority_to_queue[slot->priority & (RL_CLASSES - 1)] & (RL_CLASSES - 1);
	count = &port->counters->queue[queue];
	count->offered_packets++;
	count->offered_bytes += slot->len;
	refused = rl_admit(port, slot, queue);
	if (refused >= 0) {
		rl_count_drop(port, sch, queue, refused, slot->len);
		return RL_LISTS;
	}
	rl_count_queued(port, queue, slot->len);
	return queue;
}

/* Count a data packet for which not even one of the control frames' slots is left. */
static __always_inline void rl_refuse(const struct rl_port *port, struct Qdisc *sch, __u32 mark, __u32 len)
{
	__u32 queue = port->config->priority_to_queue[rl_mark_priority(mark)] & (RL_CLASSES - 1);

	port->counters->queue[queue].offered_packets++;
	port->counters->queue[queue].offered_bytes += len;
	rl_count_drop(port, sch, queue, RL_DROP_SLOTS, len);
}

#endif
