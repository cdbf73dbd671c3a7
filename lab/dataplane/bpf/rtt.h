/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RTT of a QP: from a packet's leaving the NIC to the arrival of its acknowledgement at the NIC.
 *
 *      wire  ◄── rl_dequeue: notes the PSN and the time ◄── queue of the class ◄── FIFO of the QP
 *      wire  ──► port_rx: the acknowledgement of that PSN ends the RTT, and a kick takes it to the root qdisc
 *
 * One packet of a QP is timed at once, so there is at most one RTT in a round trip. Only packets that ask for an
 * acknowledgement are: the last of a message, and one in 64 of a long one. Their acknowledgements have their own PSN, and
 * are sent at once. One that acknowledges more than the timed packet ends no RTT, and nor does one of a packet that was
 * sent again, which may be of either (Karn's rule).
 */
#ifndef RL_RTT_H
#define RL_RTT_H

#include "limiters.h"

#define RL_ACK_REQUEST 0x80000000u /* in the word of the BTH that has the PSN */
#define RL_PSN 0xffffffu
#define RL_NO_PSN 0xffffffffu
#define RL_PSN_PAST 0x800000u /* a PSN that is so far ahead is behind (IBA vol. 1, 9.7.2) */
#define RL_NAK 0x60 /* in the AETH: it is no acknowledgement of its PSN */

static __always_inline void rl_forget_rtts(struct rl_limiter *limiter)
{
	limiter->newest_psn = RL_NO_PSN;
	__sync_lock_test_and_set(&limiter->timed_at, 0);
}

/* A packet of a limited QP leaves the NIC. */
static __always_inline void rl_time_packet(struct rl_limiter *limiter, __u32 psn, __u64 now)
{
	__u32 ahead = (psn - limiter->newest_psn) & RL_PSN;

	if (!(psn & RL_ACK_REQUEST))
		return;
	if (limiter->timed_at && (psn & RL_PSN) == limiter->timed_psn)
		__sync_lock_test_and_set(&limiter->timed_at, 0);
	if (limiter->newest_psn != RL_NO_PSN && (!ahead || ahead >= RL_PSN_PAST))
		return;
	limiter->newest_psn = psn & RL_PSN;
	if (limiter->timed_at)
		return;
	limiter->timed_psn = psn & RL_PSN;
	__sync_lock_test_and_set(&limiter->timed_at, now); /* a full barrier: who sees the time sees the PSN */
}

/* The RTT that an acknowledgement ends, in ns, or 0. */
static __always_inline __u64 rl_end_rtt(struct rl_limiter *limiter, __u32 psn, __u8 syndrome, __u64 now)
{
	__u64 at = limiter->timed_at;
	__u32 beyond = (psn - limiter->timed_psn) & RL_PSN;

	if (!at || (beyond >= RL_PSN_PAST && !(syndrome & RL_NAK)))
		return 0;
	if (__sync_val_compare_and_swap(&limiter->timed_at, at, 0) != at)
		return 0;
	return beyond || syndrome & RL_NAK || at >= now ? 0 : now - at;
}

#endif
