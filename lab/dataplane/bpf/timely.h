/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TIMELY: what a QP's rate is, from its RTTs (Mittal et al., SIGCOMM 2015, algorithm 1).
 *
 *      RTT below t_low       rate += step
 *      RTT above t_high      rate -= rate beta (1 - t_high / RTT)
 *      gradient not above 0  rate += step, or hai_factor times that from the hai_threshold-th such RTT in a row on
 *      gradient above 0      rate -= rate beta gradient
 *
 * The gradient is the moving average of the differences between one RTT and the next, in units of min_rtt. The first RTT
 * of a QP only is what the second is compared with.
 */
#ifndef RL_TIMELY_H
#define RL_TIMELY_H

#include "maps.h"

#define RL_MOST_CALM (1u << 20)

static __always_inline void rl_timely_start(struct rl_limiter *limiter, const struct rl_config *config)
{
	rl_set_rate(limiter, config, config->cc.timely_initial_rate ?: rl_line_rate(config));
	limiter->target = limiter->rate;
	limiter->rtt = 0;
	limiter->rtt_difference = 0;
	limiter->calm = 0;
}

/* The moving average with one more difference, in ns. */
static __always_inline __s64 rl_timely_average(const struct rl_cc_config *cc, __s64 average, __s64 difference)
{
	__s64 weight = cc->timely_alpha;

	return ((RL_FRACTION_ONE - weight) * average + weight * difference) >> RL_FRACTION_BITS;
}

/* What is to be taken off the rate, in 1/RL_FRACTION_ONE; 0: it may grow. */
static __always_inline __u64 rl_timely_cut(const struct rl_cc_config *cc, __u64 rtt, __s64 difference)
{
	__u64 cut;

	if (rtt < cc->timely_t_low || (rtt <= cc->timely_t_high && difference <= 0))
		return 0;
	if (rtt > cc->timely_t_high)
		cut = cc->timely_beta * (rtt - cc->timely_t_high) / rtt;
	else
		cut = cc->timely_beta * (__u64)difference / (cc->timely_min_rtt ?: 1);
	return cut < 1 ? 1 : cut < RL_FRACTION_ONE ? cut : RL_FRACTION_ONE;
}

/* An acknowledgement has come, with the RTT of the packet that it acknowledges, or 0. */
static __always_inline void rl_timely_on_ack(struct rl_limiter *limiter, const struct rl_config *config, bool first,
					     __u64 rtt)
{
	const struct rl_cc_config *cc = &config->cc;
	__u64 before, cut, rate;

	if (first)
		rl_timely_start(limiter, config);
	before = limiter->rtt;
	rate = limiter->rate;
	if (rtt)
		limiter->rtt = rtt;
	if (!rtt || !before)
		return;
	limiter->rtt_difference = rl_timely_average(cc, limiter->rtt_difference, (__s64)(rtt - before));
	cut = rl_timely_cut(cc, rtt, limiter->rtt_difference);
	if (cut) {
		limiter->calm = 0;
		rate -= rate * cut >> RL_FRACTION_BITS;
	} else {
		limiter->calm += limiter->calm < RL_MOST_CALM;
		rate += rtt >= cc->timely_t_low && limiter->calm >= cc->timely_hai_threshold ?
				cc->timely_add_step * cc->timely_hai_factor :
				cc->timely_add_step;
	}
	rl_set_rate(limiter, config, rate);
	limiter->target = limiter->rate;
}

#endif
