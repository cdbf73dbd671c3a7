/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DCQCN by NVIDIA's registers: what a QP's rate is, from the CNPs that have come and the time (SIGCOMM 2015, section 5).
 *
 *      alpha timer       flag: alpha = g alpha / 1024 + 1024 - g; otherwise alpha = g alpha / 1024
 *      decrease timer    flag: the target becomes the rate, where a clamp says so; rate -= min(rate alpha >> gd, ...)
 *      increase          by time or bytes: target += 0, AI or HAI by stage; rate = (rate + target) / 2
 *
 * `rl_dcqcn_on_timer` catches up event by event in the order of time, alpha before decrease before increase at equal
 * times, so the rate is the same as if the timers had fired. Only a cut reads alpha, and only a CNP raises its flag:
 * alpha catches up before these, not with every packet. Between them user space computes it (limited_qps.py). A QP that
 * has recovered to the line rate begins anew with its next CNP, as a NIC does that allocates a limiter on the first.
 */
#ifndef RL_DCQCN_H
#define RL_DCQCN_H

#include "maps.h"

#define RL_ALPHA_FRACTION 16 /* bits of alpha below NVIDIA's ten: cut off to those, rates differ by up to 45% from the paper's */
#define RL_ALPHA_UNIT 1024
#define RL_MOST_INCREASES 16384

/* What an update retains of alpha. */
static __always_inline __u32 rl_decay(const struct rl_cc_config *cc, __u64 alpha)
{
	return alpha * (cc->dce_tcp_g & (RL_ALPHA_UNIT - 1)) / RL_ALPHA_UNIT;
}

/* Alpha after an update with a CNP. */
static __always_inline __u32 rl_raise_alpha(const struct rl_cc_config *cc, __u64 alpha)
{
	__u32 gain = RL_ALPHA_UNIT - (cc->dce_tcp_g & (RL_ALPHA_UNIT - 1));

	return rl_decay(cc, alpha) + (gain << RL_ALPHA_FRACTION);
}

/* Alpha with the timer's firings up to `until`. */
static __always_inline void rl_run_alpha(struct rl_limiter *limiter, const struct rl_cc_config *cc, __u64 until)
{
	__u64 period = cc->dce_tcp_rtt ?: 1, times;

	if (limiter->alpha_at > until)
		return;
	times = (until - limiter->alpha_at) / period + 1;
	limiter->alpha_at += times * period;
	if (limiter->alpha_flag) {
		limiter->alpha = rl_raise_alpha(cc, limiter->alpha);
		limiter->alpha_flag = 0;
		times--;
	}
	/* After 13,000 turns alpha is 0 for every g up to 1023, so none is left for rl_may_loop to end. */
	while (limiter->alpha && times && rl_may_loop()) {
		limiter->alpha = rl_decay(cc, limiter->alpha);
		times--;
	}
}

/* One increase, by the stages before it. */
static __always_inline void rl_increase(struct rl_limiter *limiter, const struct rl_config *config)
{
	const struct rl_cc_config *cc = &config->cc;
	__u32 low = limiter->time_stage, high = limiter->byte_stage;

	if (low > high || !cc->rpg_byte_reset) {
		high = limiter->time_stage;
		low = cc->rpg_byte_reset ? limiter->byte_stage : high;
	}
	if (low > cc->rpg_threshold)
		limiter->target += cc->rpg_hai_rate;
	else if (high >= cc->rpg_threshold)
		limiter->target += cc->rpg_ai_rate;
	if (limiter->target > rl_line_rate(config))
		limiter->target = rl_line_rate(config);
	limiter->rate = (limiter->rate + limiter->target) / 2;
}

/* The increases by the timer up to `until`, until there is nothing left to increase. */
static __always_inline void rl_run_increases(struct rl_limiter *limiter, const struct rl_config *config, __u64 until)
{
	__u64 period = config->cc.rpg_time_reset ?: 1, line = rl_line_rate(config);
	__u32 i;

	bpf_for(i, 0, RL_MOST_INCREASES) {
		if (limiter->increase_at > until)
			break;
		if (limiter->rate + 1 >= line && limiter->target >= line) {
			__u64 times = (until - limiter->increase_at) / period + 1;

			limiter->increase_at += times * period;
			limiter->time_stage = limiter->time_stage + times < 1 << 20 ? limiter->time_stage + times : 1 << 20;
			break;
		}
		rl_increase(limiter, config);
		limiter->time_stage++;
		limiter->increase_at += period;
	}
}

static __always_inline void rl_cut_rate(struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	const struct rl_cc_config *cc = &config->cc;
	__u64 alpha = limiter->alpha >> (RL_ALPHA_FRACTION / 2); /* so that the product fits 64 bits */
	__u64 reduction = limiter->rate * alpha >> ((cc->rpg_gd & 31) + RL_ALPHA_FRACTION / 2);
	__u64 most = limiter->rate * (100 - cc->rpg_min_dec_fac) / 100;

	if (cc->clamp_tgt_rate || limiter->byte_stage || (cc->clamp_tgt_rate_after_time_inc && limiter->time_stage))
		limiter->target = limiter->rate;
	rl_set_rate(limiter, config, limiter->rate - (reduction < most ? reduction : most));
	limiter->decrease_flag = 0;
	limiter->time_stage = limiter->byte_stage = 0;
	limiter->bytes = 0;
	limiter->increase_at = now + cc->rpg_time_reset;
}

/* Whether a timer has fired that changes the rate. */
static __always_inline bool rl_dcqcn_has_event(const struct rl_limiter *limiter, __u64 now)
{
	return limiter->increase_at <= now || (limiter->decrease_flag && limiter->decrease_at <= now);
}

/* Run the timers up to `now`. */
static __always_inline void rl_dcqcn_on_timer(struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	const struct rl_cc_config *cc = &config->cc;
	__u64 at = limiter->decrease_at;

	if (limiter->decrease_flag && cc->rate_reduce_monitor_period && at <= now) {
		rl_run_increases(limiter, config, at - 1);
		rl_run_alpha(limiter, cc, at);
		rl_cut_rate(limiter, config, at);
		limiter->decrease_at = at + cc->rate_reduce_monitor_period;
	}
	rl_run_increases(limiter, config, now);
}

/* The next firing of the decrease timer after `now`; it fires all the time, and only does something after a CNP. */
static __always_inline __u64 rl_next_look(const struct rl_limiter *limiter, __u64 period, __u64 now)
{
	if (limiter->decrease_at > now)
		return limiter->decrease_at;
	return limiter->decrease_at + ((now - limiter->decrease_at) / period + 1) * period;
}

/* The paper's rule (equation 1), in its order: cut with the old alpha, then update alpha and restart its timer. */
static __always_inline void rl_cut_at_once(struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	const struct rl_cc_config *cc = &config->cc;

	limiter->target = limiter->rate;
	rl_cut_rate(limiter, config, now);
	limiter->alpha = rl_raise_alpha(cc, limiter->alpha);
	limiter->alpha_at = now + cc->dce_tcp_rtt;
}

/* Whether nothing is left to recover: the next CNP is a first one, whether the limiter has been given back or not. */
static __always_inline bool rl_dcqcn_is_done(const struct rl_limiter *limiter, const struct rl_config *config)
{
	__u64 line = rl_line_rate(config);

	return limiter->rate + 1 >= line && limiter->target >= line && !limiter->decrease_flag;
}

static __always_inline void rl_first_cnp(struct rl_limiter *limiter, const struct rl_config *config, __u64 now)
{
	const struct rl_cc_config *cc = &config->cc;

	limiter->alpha = cc->initial_alpha_value << RL_ALPHA_FRACTION;
	rl_set_rate(limiter, config, cc->rate_to_set_on_first_cnp ?: rl_line_rate(config));
	limiter->target = limiter->rate;
	limiter->alpha_at = now + cc->dce_tcp_rtt;
	limiter->decrease_at = now + cc->rate_reduce_monitor_period;
	limiter->increase_at = now + cc->rpg_time_reset;
	limiter->time_stage = limiter->byte_stage = 0;
	limiter->bytes = 0;
	limiter->alpha_flag = 0;
	limiter->decrease_flag = !cc->rate_to_set_on_first_cnp;
}

/* A CNP has come; `first`: for a QP that was not limited. */
static __always_inline void rl_dcqcn_on_cnp(struct rl_limiter *limiter, const struct rl_config *config, bool first,
					    __u64 now)
{
	const struct rl_cc_config *cc = &config->cc;

	first |= rl_dcqcn_is_done(limiter, config);
	if (first)
		rl_first_cnp(limiter, config, now);
	else
		rl_run_alpha(limiter, cc, now);
	if (!cc->rate_reduce_monitor_period) {
		if (!first || !cc->rate_to_set_on_first_cnp)
			rl_cut_at_once(limiter, config, now);
		return;
	}
	if (first)
		return;
	if (!limiter->decrease_flag)
		limiter->decrease_at = rl_next_look(limiter, cc->rate_reduce_monitor_period, now);
	limiter->alpha_flag = limiter->decrease_flag = 1;
}

/* A packet has been sent. */
static __always_inline void rl_dcqcn_on_send(struct rl_limiter *limiter, const struct rl_config *config, __u32 len)
{
	const struct rl_cc_config *cc = &config->cc;

	limiter->bytes += len;
	if (cc->rpg_byte_reset && limiter->bytes >= cc->rpg_byte_reset) {
		limiter->bytes -= cc->rpg_byte_reset;
		rl_increase(limiter, config);
		limiter->byte_stage++;
	}
}

#endif
