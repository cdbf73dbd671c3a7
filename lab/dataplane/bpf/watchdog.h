/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PFC watchdog: a queue that pauses hold for too long is emptied, or sent, until they end.
 */
#ifndef RL_WATCHDOG_H
#define RL_WATCHDOG_H

#include "discard.h"

/* A storm ends when the queue has not been paused for the time to restore. */
static __always_inline void rl_watch_storm(const struct rl_port *port, __u32 queue, __u64 now, __u64 *wake)
{
	__u64 end = port->state->pause_until[queue] + port->config->watchdog_restore_ns;

	if (now < end && port->config->watchdog_detect_ns) {
		rl_wake(wake, end);
		return;
	}
	port->state->stormed &= ~(1u << queue);
	port->state->blocked &= ~(1u << queue);
	port->counters->queue[queue].restored++;
	rl_log(port->id, RL_EVENT_RESTORED, queue, 0);
}

/* A queue with a backlog that a pause has held for the whole time to detect is in a storm. */
static __always_inline void rl_watch_pause(const struct rl_port *port, __u32 queue, __u64 now, __u64 *wake)
{
	struct rl_state *state = port->state;
	struct rl_queue_counters *count = &port->counters->queue[queue];

	if (!(state->waiting >> queue & 1))
		return;
	if (state->pause_until[queue] <= now) {
		state->blocked &= ~(1u << queue);
		return;
	}
	if (!(state->blocked >> queue & 1))
		state->blocked_since[queue] = now;
	state->blocked |= 1u << queue;
	if (now - state->blocked_since[queue] < port->config->watchdog_detect_ns) {
		rl_wake(wake, state->blocked_since[queue] + port->config->watchdog_detect_ns);
		return;
	}
	state->stormed |= 1u << queue;
	count->storms++;
	rl_log(port->id, RL_EVENT_STORM, queue, count->depth_bytes);
	rl_wake(wake, now + port->config->watchdog_restore_ns);
}

/* Whether a pause is in force that the watchdog has to look at; without the time (0) that is left to the next look. */
static __always_inline bool rl_watched_pause(const struct rl_port *port, __u64 now)
{
	return now && port->config->watchdog_detect_ns && port->state->pause_end > now;
}

static __always_inline void rl_watchdog(const struct rl_port *port, struct Qdisc *sch, __u64 now, __u64 *wake)
{
	__u32 i;

	bpf_for(i, 0, RL_CLASSES) {
		__u32 queue = i & (RL_CLASSES - 1);

		if (port->state->stormed >> queue & 1)
			rl_watch_storm(port, queue, now, wake);
		else if (port->config->watchdog_detect_ns)
			rl_watch_pause(port, queue, now, wake);
		/* All that it holds, and later what a limiter (pace.h) has let go meanwhile. */
		if (port->state->stormed >> queue & 1 && !port->config->watchdog_forward)
			rl_discard(port, sch, queue, RL_DROP_WATCHDOG);
	}
}

#endif
