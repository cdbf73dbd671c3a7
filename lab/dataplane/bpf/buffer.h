/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The switch's buffer: what each (ingress port, priority group) holds of its own reserve, of the shared pool and of its
 * headroom.
 *
 *      0        reserved                  threshold            threshold + headroom
 *      |-- own --|-- shared with the pool --|-- headroom, lossless --|
 *                     XON ^                 ^ XOFF                   ^ drop
 *
 * The threshold moves with the pool: alpha x (pool - used), Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", IEEE/ACM ToN 6(2), 1998.
 *
 * A switch decides when a packet arrives. Here two programs do: port_rx tests for XOFF, and a packet is charged when it
 * enters an egress queue, until it leaves that. Between the two, packets of other ports are charged and the threshold
 * falls, even on one CPU: behind VXLAN several arrive before the first is charged. A packet that has passed the test is
 * below the threshold, so that headroom is left to what comes after XOFF: without a pause, a group whose port sends PFC
 * takes nothing of it. It goes beyond its threshold by at most the packets between test and charge, which are of one
 * CPU (an interface's receive side is pinned). The pool is charged by groups that each have a lock of their own: CPUs
 * that do so at once miss each other's packet, and the pool holds at most one for each CPU too much.
 */
#ifndef RL_BUFFER_H
#define RL_BUFFER_H

#include "maps.h"

static __always_inline __u64 rl_threshold(const struct rl_group_config *config, const struct rl_node *node)
{
	__u64 used = node->pool_used, shared = node->pool_bytes;

	if (used >= shared)
		return config->reserved;
	return config->alpha ? config->reserved + ((shared - used) * config->alpha >> 8) : config->xoff;
}

/* The priorities that a group is paused by; none where the port sends no PFC. */
static __always_inline __u32 rl_group_classes(const struct rl_config *config, __u32 group)
{
	__u32 classes = 0;

	for (__u32 i = 0; i < RL_CLASSES; i++)
		classes |= (1 - (__u32)rl_any(config->priority_to_group[i] ^ group)) << i;
	return classes & config->pfc_tx;
}

/* Bytes at which a pause ends. A moving threshold can fall below any fixed XON while others fill the pool, and so can a
 * fixed one, which an exhausted pool replaces by the reserve: half of what the group may take keeps a distance. */
static __always_inline __u64 rl_resume_at(const struct rl_group_config *config, const struct rl_node *node)
{
	__u64 used = node->pool_used, shared = node->pool_bytes;
	__u64 free = used < shared ? shared - used : 0;
	__u64 half = (config->alpha ? rl_threshold(config, node) : config->reserved + free) / 2;

	return half < config->xon ? half : config->xon;
}

/* Book what the group takes of the pool now; called with its lock held. */
static __always_inline void rl_settle(struct rl_group *group, const struct rl_group_config *config,
				      struct rl_group_counters *count, struct rl_node *node)
{
	__u64 usual = group->bytes - group->headroom;
	__u64 shared = usual > config->reserved ? usual - config->reserved : 0;
	__u64 more = shared - group->shared, used;

	if (more) {
		used = __sync_fetch_and_add(&node->pool_used, more) + more;
		group->shared = shared;
		if (used > node->pool_watermark)
			node->pool_watermark = used;
	}
	count->bytes = group->bytes;
	count->headroom_bytes = group->headroom;
	if (group->bytes > count->watermark_bytes)
		count->watermark_bytes = group->bytes;
	if (group->headroom > count->headroom_watermark_bytes)
		count->headroom_watermark_bytes = group->headroom;
}

/* Room for a packet, or why there is none. */
static __always_inline int rl_charge(const struct rl_port *ingress, struct rl_node *node, __u32 index, __u32 len)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	struct rl_group_counters *count = &ingress->counters->group[index & (RL_CLASSES - 1)];
	struct rl_group *group = rl_find_group(ingress->id, index);
	int verdict = -1;

	if (!group)
		return RL_DROP_SHARED;
	bpf_spin_lock(&group->lock);
	if (group->bytes - group->headroom + len <= rl_threshold(config, node) ||
	    (config->lossless && !group->paused && rl_group_classes(ingress->config, index))) {
		group->bytes += len;
	} else if (config->lossless && group->headroom + len <= config->headroom) {
		group->headroom += len;
		group->bytes += len;
	} else {
		verdict = config->lossless ? RL_DROP_HEADROOM : RL_DROP_SHARED;
		count->drop_packets++;
		count->drop_bytes += len;
	}
	rl_settle(group, config, count, node);
	bpf_spin_unlock(&group->lock);
	return verdict;
}

/* Headroom empties first, so that it is whole again when the next XOFF comes; before, no pause ends. */
static __always_inline void rl_release(const struct rl_port *ingress, struct rl_node *node, __u32 index, __u32 len)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	struct rl_group_counters *count = &ingress->counters->group[index & (RL_CLASSES - 1)];
	struct rl_group *group = rl_find_group(ingress->id, index);

	if (!group)
		return;
	bpf_spin_lock(&group->lock);
	group->bytes -= len;
	group->headroom -= group->headroom < len ? group->headroom : len;
	rl_settle(group, config, count, node);
	bpf_spin_unlock(&group->lock);
}

/* Whether a packet that has just arrived may take its group beyond the threshold. Most are far from it, and that shows
 * without the lock: what counts is never more than all that the group holds. */
static __always_inline bool rl_nears(const struct rl_port *ingress, const struct rl_node *node, __u32 index, __u32 len)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	const struct rl_group *group;

	if (!config->lossless)
		return false;
	group = rl_find_group(ingress->id, index);
	return group && !group->paused && group->bytes + len > rl_threshold(config, node);
}

/* Whether a group has room below its threshold: for a packet that leaves at once, and so is never charged. */
static __always_inline bool rl_has_room(const struct rl_port *ingress, const struct rl_node *node, __u32 index,
					__u32 len)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	const struct rl_group *group = rl_find_group(ingress->id, index);

	return group && group->bytes - group->headroom + len <= rl_threshold(config, node);
}

/* Whether a packet that has just arrived takes its group beyond the threshold for the first time. */
static __always_inline bool rl_crosses(const struct rl_port *ingress, const struct rl_node *node, __u32 index,
				       __u32 len, __u64 refresh_at)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	struct rl_group_counters *count = &ingress->counters->group[index & (RL_CLASSES - 1)];
	struct rl_group *group = rl_find_group(ingress->id, index);
	bool crossed = false;

	if (!group)
		return false;
	bpf_spin_lock(&group->lock);
	if (!group->paused && group->bytes - group->headroom + len > rl_threshold(config, node)) {
		group->paused = 1;
		group->refresh_at = refresh_at;
		count->xoff++;
		crossed = true;
	}
	bpf_spin_unlock(&group->lock);
	return crossed;
}

enum rl_turn { RL_STAY, RL_RESUME, RL_REFRESH };

/* What a paused group needs now: to be resumed, or its pause to be sent again before it runs out. */
static __always_inline enum rl_turn rl_review(const struct rl_port *ingress, const struct rl_node *node, __u32 index,
					      __u64 now, __u64 refresh_at, __u64 *above)
{
	const struct rl_group_config *config = &ingress->config->group[index & (RL_CLASSES - 1)];
	struct rl_group_counters *count = &ingress->counters->group[index & (RL_CLASSES - 1)];
	struct rl_group *group = rl_find_group(ingress->id, index);
	enum rl_turn turn = RL_STAY;
	__u64 xon;

	*above = 0;
	if (!group || !group->paused)
		return RL_STAY;
	bpf_spin_lock(&group->lock);
	xon = rl_resume_at(config, node);
	if (group->paused && group->bytes <= xon && !group->headroom) {
		group->paused = 0;
		count->xon++;
		turn = RL_RESUME;
	} else if (group->paused) {
		*above = group->bytes > xon ? group->bytes - xon : group->headroom;
		if (now >= group->refresh_at) {
			group->refresh_at = refresh_at;
			turn = RL_REFRESH;
		}
	}
	bpf_spin_unlock(&group->lock);
	return turn;
}

/* The frame that was to say it could not be sent: what `rl_review` decided is decided again at the next tick. True when
 * the pause has ended all the same, because the group has crossed XOFF again since. */
static __always_inline bool rl_take_back(const struct rl_port *ingress, __u32 index, enum rl_turn turn)
{
	struct rl_group_counters *count = &ingress->counters->group[index & (RL_CLASSES - 1)];
	struct rl_group *group = rl_find_group(ingress->id, index);
	bool ended;

	if (!group)
		return false;
	bpf_spin_lock(&group->lock);
	ended = turn == RL_RESUME && group->paused;
	group->refresh_at = 0;
	if (turn == RL_RESUME && !ended) {
		group->paused = 1;
		count->xon--;
	}
	bpf_spin_unlock(&group->lock);
	return ended;
}

#endif
