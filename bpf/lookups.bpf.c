// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A yardstick for `weir bench law`: what a classifier costs that keeps its state in several hash maps and writes
 * entries back by update, as the public prototype of the CRQ paper does. For a packet of an established flow within a
 * cycle that is, with its key and value sizes, for TCP two look-ups and one update, for QUIC one look-up and one
 * update; its probe on enqueue adds an update, a look-up, another look-up and a delete. Only these operations and the
 * parsing at fixed offsets are here: no law, no cycle ends, no kprobes, so the prototype itself costs more.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct tuple {
	__u32 src;
	__u32 dst;
	__u16 src_port;
	__u16 dst_port;
};

struct connection {
	__u64 started;
	__u32 class;
	__u32 spins;
	__u64 rtt;
	__u32 window[4];
	__u32 votes[4];
	__u32 marker;
};

struct acknowledged {
	__u32 highest;
	__u32 expected;
	__u8 active;
};

struct pending {
	__u64 qdisc;
	__u64 skb;
	__u64 to_free;
};

#define ENTRIES 10240

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, struct tuple);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, struct tuple);
	__type(value, struct acknowledged);
} acknowledgements SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, struct tuple);
	__type(value, __u32);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, __u64);
	__type(value, struct pending);
} enqueuing SEC(".maps");

static __always_inline int account(const struct tuple *key, __u32 bytes, int tcp, __u32 marker)
{
	struct connection *known = bpf_map_lookup_elem(&connections, key);
	struct connection copy;

	if (!known) {
		struct connection fresh = { .started = bpf_ktime_get_ns(), .marker = marker };
		__u32 none = 0;

		bpf_map_update_elem(&connections, key, &fresh, BPF_ANY);
		bpf_map_update_elem(&drops, key, &none, BPF_ANY);
		return TC_ACT_OK;
	}
	copy = *known;
	if (tcp) {
		struct acknowledged *acknowledged = bpf_map_lookup_elem(&acknowledgements, key);

		if (!acknowledged) {
			struct acknowledged fresh = {};

			bpf_map_update_elem(&acknowledgements, key, &fresh, BPF_ANY);
		} else if (acknowledged->highest >= copy.marker && acknowledged->active) {
			copy.marker = marker;
		}
	}
	copy.window[0] += bytes;
	bpf_map_update_elem(&connections, key, &copy, BPF_ANY);
	return TC_ACT_OK;
}

static __always_inline int read_tuple(struct __sk_buff *skb, struct tuple *key, __u32 *bytes, int *tcp, __u32 *marker)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if ((void *)(ip + 1) > end)
		return 0;
	key->src = ip->saddr;
	key->dst = ip->daddr;
	*tcp = ip->protocol == IPPROTO_TCP;
	if (ip->protocol == IPPROTO_TCP) {
		struct tcphdr *segment = (void *)(ip + 1);

		if ((void *)(segment + 1) > end)
			return 0;
		key->src_port = segment->source;
		key->dst_port = segment->dest;
		*bytes = bpf_ntohs(ip->tot_len) - ip->ihl * 4 - segment->doff * 4;
		*marker = bpf_ntohl(segment->seq) + *bytes;
		return 1;
	}
	if (ip->protocol == IPPROTO_UDP) {
		struct udphdr *datagram = (void *)(ip + 1);
		__u8 *first = (void *)(datagram + 1);

		if ((void *)(first + 1) > end || !(*first & 0x40))
			return 0;
		key->src_port = datagram->source;
		key->dst_port = datagram->dest;
		*bytes = skb->len - 42;
		return 1;
	}
	return 0;
}

/* The classifier's own operations. */
SEC("tc")
int classifier(struct __sk_buff *skb)
{
	struct tuple key = {};
	__u32 bytes = 0, marker = 0;
	int tcp = 0;

	if (!read_tuple(skb, &key, &bytes, &tcp, &marker))
		return TC_ACT_UNSPEC;
	return account(&key, bytes, tcp, marker);
}

/* And those of the probes around the qdisc's enqueue. */
SEC("tc")
int with_probes(struct __sk_buff *skb)
{
	struct tuple key = {};
	__u32 bytes = 0, marker = 0;
	struct pending pending = { .skb = skb->len };
	__u64 task = bpf_get_smp_processor_id();
	int tcp = 0;

	if (!read_tuple(skb, &key, &bytes, &tcp, &marker))
		return TC_ACT_UNSPEC;
	account(&key, bytes, tcp, marker);
	bpf_map_update_elem(&enqueuing, &task, &pending, BPF_ANY);
	if (!bpf_map_lookup_elem(&drops, &key))
		return TC_ACT_OK;
	if (bpf_map_lookup_elem(&enqueuing, &task))
		bpf_map_delete_elem(&enqueuing, &task);
	return TC_ACT_OK;
}

/* What the measuring takes by itself. */
SEC("tc")
int nothing(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
