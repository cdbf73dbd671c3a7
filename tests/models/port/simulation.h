/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all models of the port need: random numbers of a seed, and maps, each of which is an array of zeros at first.
 */
#ifndef SIMULATION_H
#define SIMULATION_H

#include <stdlib.h>

#define MAPS 32
#define ENTRIES 70000

static __u64 random_state;

static void begin_random(unsigned long seed)
{
	random_state = 88172645463325252ull ^ (seed * 0x9e3779b97f4a7c15ull + 1);
}

static __u32 up_to(__u32 most)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (__u32)(random_state >> 11) % most;
}

void *sim_lookup(void *map, size_t size, __u32 key)
{
	static struct { void *map; char *memory; } arrays[MAPS];

	for (int i = 0; i < MAPS && key < ENTRIES; i++) {
		if (!arrays[i].map)
			arrays[i].map = map, arrays[i].memory = calloc(ENTRIES, size);
		if (arrays[i].map == map)
			return arrays[i].memory + key * size;
	}
	abort();
}

#endif
