// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * For tests: counts the tracepoints' calls for packets of one device by itself, without law, table or reasons, so that
 * what crq_signals.bpf.c booked can be compared with what the kernel announced. Where this too saw less than the queues
 * counted, the platform lost the calls.
 */
#include "core.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Most packets that one dequeue chains. */
#define MOST_CHAINED 64

/* The device and its network namespace's inode. */
const volatile u32 device = 0;
const volatile u32 netns = 0;

/* By number: packets freed as dropped while they were the device's; packets that left, given back ones each time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} seen SEC(".maps");

static __always_inline void add(u32 key, u64 packets)
{
	u64 *count = bpf_map_lookup_elem(&seen, &key);

	if (count)
		__sync_fetch_and_add(count, packets);
}

static __always_inline int is_ours(const struct net_device *dev)
{
	return dev && (u32)dev->ifindex == device && dev->nd_net.net->ns.inum == netns;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(freed, struct sk_buff *skb)
{
	if (skb->priority >> 16 == 0x57e1 && is_ours(skb->dev))
		add(0, 1);
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(went, struct Qdisc *qdisc, const struct netdev_queue *queue, int packets, struct sk_buff *skb)
{
	if (skb && is_ours(queue->dev))
		add(1, packets);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
