// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Learns which QPs are connected to each other, from rxe's verbs.
 *
 * rxe_modify_qp has all of a connected QP when its path and its peer's QPN are set, on the way to RTR (IBA vol. 1,
 * 11.2.5.2): both at once. It ends when rxe_destroy_qp returns: until then rxe goes on to send, and a packet that was no
 * longer limited would pass those that wait. A QPN that is used again replaces what was known of it.
 */
#include "limiters.h"

#define IB_QP_AV (1 << 7) /* enum ib_qp_attr_mask of <rdma/ib_verbs.h> */
#define IB_QP_DEST_QPN (1 << 20)

char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

union ib_gid {
	__u8 raw[RL_ADDRESS];
};

struct ib_gid_attr {
	struct net_device *ndev;
	union ib_gid gid;
};

struct ib_global_route {
	const struct ib_gid_attr *sgid_attr;
	union ib_gid dgid;
};

struct rdma_ah_attr {
	struct ib_global_route grh;
};

struct ib_qp_attr {
	__u32 dest_qp_num;
	struct rdma_ah_attr ah_attr;
};

struct ib_qp {
	const struct ib_gid_attr *av_sgid_attr;
	__u32 qp_num;
};

#pragma clang attribute pop

static __always_inline void rl_key_of(struct rl_qp_key *key, const struct ib_gid_attr *local, __u32 qpn)
{
	key->netns = local->ndev->nd_net.net->ns.inum;
	key->qpn = qpn;
	__builtin_memcpy(key->address, local->gid.raw, RL_ADDRESS);
}

/* What limits a QP ends with it: whoever has its QPN next begins anew. */
static __always_inline void rl_close(const struct rl_qp_key *key)
{
	const struct rl_qp_pair *pair = bpf_map_lookup_elem(&qp_pairs, key);
	struct rl_limiter *limiter;
	struct rl_qp_key peer = {};
	const __u64 *lease;

	if (!pair || !pair->lease)
		return;
	peer.netns = key->netns;
	peer.qpn = pair->peer_qpn;
	__builtin_memcpy(peer.address, pair->peer, RL_ADDRESS);
	lease = bpf_map_lookup_elem(&limited_peers, &peer);
	if (lease && *lease == pair->lease)
		bpf_map_delete_elem(&limited_peers, &peer);
	limiter = rl_leased(pair->lease);
	if (limiter)
		limiter->closed = pair->lease >> 32; /* of this QP, even if the limiter is another's by now */
}

SEC("fentry/rxe_modify_qp")
int BPF_PROG(qp_modified, struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	struct rl_qp_pair pair = {};
	struct rl_qp_key key = {};

	if (!(mask & IB_QP_AV) || !(mask & IB_QP_DEST_QPN))
		return 0;
	rl_key_of(&key, attr->ah_attr.grh.sgid_attr, qp->qp_num);
	rl_close(&key);
	pair.peer_qpn = attr->dest_qp_num;
	__builtin_memcpy(pair.peer, attr->ah_attr.grh.dgid.raw, RL_ADDRESS);
	bpf_map_update_elem(&qp_pairs, &key, &pair, BPF_ANY);
	return 0;
}

SEC("fexit/rxe_destroy_qp")
int BPF_PROG(qp_destroyed, struct ib_qp *qp, void *udata, int failed)
{
	struct rl_qp_key key = {};

	if (failed || !qp->av_sgid_attr)
		return 0; /* it is still there, or it never was connected */
	rl_key_of(&key, qp->av_sgid_attr, qp->qp_num);
	rl_close(&key);
	bpf_map_delete_elem(&qp_pairs, &key);
	return 0;
}
