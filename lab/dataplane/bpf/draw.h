/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) by position: packet n has the RL_STREAMS outputs from n * RL_STREAMS
 * on. So nothing has to be locked, and what befalls a packet depends on the seed and its number alone.
 */
#ifndef RL_DRAW_H
#define RL_DRAW_H

#include "kernel.h"

#define RL_STREAMS 8 /* random numbers that each packet has, used or not */
#define RL_GAMMA 0x9e3779b97f4a7c15ull

static __always_inline __u64 rl_draw(__u64 seed, __u64 number, __u32 stream)
{
	__u64 value = seed + (number * RL_STREAMS + stream + 1) * RL_GAMMA;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

#endif
