/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The algorithms of congestion control, one header each, and the events by which they set a limiter's rate:
 *
 *      on_send     a packet of the QP has been sent
 *      on_cnp      a CNP has come for it
 *      on_ack      an acknowledgement has come, with the RTT that it ends, if it ends one (rtt.h)
 *      on_timer    time has passed
 *
 * All run under the lock of the NIC's root qdisc. Nothing runs by a clock: on_timer comes before each of the others, and
 * catches up. So an idle QP costs nothing. A packet that already waits keeps its due time when the rate changes. Pacing,
 * RTTs, queues and counters are the port's (pace.h).
 *
 * A limiter is given back when its algorithm is done with it, when its QP ends, or when the NIC no longer reacts.
 */
#ifndef RL_ALGORITHMS_H
#define RL_ALGORITHMS_H

#include "dcqcn.h"
#include "timely.h"

/* What a kick of the qdisc carries, in place of a priority. */
enum rl_kick { RL_KICK_CNP, RL_KICK_ACK };

/* Whether an algorithm needs the RTTs of QPs: then each QP has a limiter from its first acknowledgement on. */
static __always_inline bool rl_needs_rtts(const struct rl_cc_config *cc)
{
	return cc->react && cc->algorithm == RL_CC_TIMELY;
}

/* Whether CNPs slow a QP down. */
static __always_inline bool rl_obeys_cnps(const struct rl_cc_config *cc)
{
	return cc->react && cc->algorithm == RL_CC_DCQCN;
}

/* Whether the NIC still has the algorithm that a limiter was started with. */
static __always_inline bool rl_is_current(const struct rl_limiter *limiter, const struct rl_cc_config *cc)
{
	return cc->react && limiter->algorithm == cc->algorithm;
}

/* Whether a limiter has nothing left to do. */
static __always_inline bool rl_is_done(const struct rl_limiter *limiter, const struct rl_config *config)
{
	if (!rl_is_current(limiter, &config->cc))
		return true;
	return limiter->algorithm == RL_CC_DCQCN && rl_dcqcn_is_done(limiter, config);
}

/* Whether on_timer has something to do. */
static __always_inline bool rl_has_event(const struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	if (!rl_is_current(limiter, &config->cc))
		return true;
	return limiter->algorithm == RL_CC_DCQCN && rl_dcqcn_has_event(limiter, now);
}

static __always_inline void rl_on_timer(struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	if (!limiter->started)
		return;
	if (!rl_is_current(limiter, &config->cc)) {
		limiter->rate = limiter->target = rl_line_rate(config);
		limiter->algorithm = RL_CC_NONE;
	} else if (limiter->algorithm == RL_CC_DCQCN) {
		rl_dcqcn_on_timer(limiter, config, now);
	}
}

static __always_inline void rl_on_send(struct rl_limiter *limiter, const struct rl_config *config, __u32 len)
{
	if (rl_is_current(limiter, &config->cc) && limiter->algorithm == RL_CC_DCQCN)
		rl_dcqcn_on_send(limiter, config, len);
}

static __always_inline void rl_on_cnp(struct rl_limiter *limiter, const struct rl_config *config, bool first,
				      __u64 now)
{
	limiter->cnps++;
	if (limiter->algorithm == RL_CC_DCQCN)
		rl_dcqcn_on_cnp(limiter, config, first, now);
}

static __always_inline void rl_on_ack(struct rl_limiter *limiter, const struct rl_config *config, bool first,
				      __u64 rtt)
{
	if (limiter->algorithm == RL_CC_TIMELY)
		rl_timely_on_ack(limiter, config, first, rtt);
}

#endif
