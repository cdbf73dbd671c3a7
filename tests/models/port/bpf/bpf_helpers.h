/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libbpf's words, for the machine's own compiler: maps are arrays of the simulator, and locks are not needed. */
#include <stdbool.h>
#include <stddef.h>

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym
#define __kptr
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)
#define bpf_kptr_xchg(place, value) ({ typeof(*(place)) old = *(place); *(place) = (value); old; })
#define bpf_map_lookup_elem(map, key)                                                                                 \
	((typeof((map)->value))sim_lookup((void *)(map), sizeof(*(map)->value), *(const __u32 *)(key)))
#define bpf_map_update_elem(...) (-1)
#define bpf_map_delete_elem(...) (-1)
#define bpf_spin_lock(lock)
#define bpf_spin_unlock(lock)

void *sim_lookup(void *map, size_t size, __u32 key);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_prandom_u32(void);
int bpf_clone_redirect(struct __sk_buff *, __u32, __u64);
struct bpf_sock *bpf_sk_fullsock(struct bpf_sock *);
long bpf_csum_diff(__be32 *, __u32, __be32 *, __u32, __u64);
int bpf_redirect(__u32, __u64);
int bpf_skb_adjust_room(void *, int, __u32, __u64);
int bpf_skb_change_tail(void *, __u32, __u64);
int bpf_skb_ecn_set_ce(void *);
int bpf_skb_load_bytes(const void *, __u32, void *, __u32);
int bpf_skb_pull_data(void *, __u32);
int bpf_skb_store_bytes(void *, __u32, const void *, __u32, __u64);
int bpf_skb_vlan_pop(void *);
int bpf_skb_vlan_push(void *, __be16, __u16);
