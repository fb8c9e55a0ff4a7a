/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's own structures, as far as the tracing programs read them. Only names count: libbpf finds each field's
 * place in the running kernel's type information (BTF) when it loads a program, so one object serves Linux 6.1 to 7.2.
 * Sources: include/linux/skbuff.h, netdevice.h, ns_common.h, include/net/sch_generic.h, gen_stats.h.
 */
#ifndef WEIR_CORE_H
#define WEIR_CORE_H

#include "packet.h"

#define WEIR_KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} WEIR_KERNEL;

struct net {
	struct ns_common ns;
} WEIR_KERNEL;

typedef struct {
	struct net *net;
} WEIR_KERNEL possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} WEIR_KERNEL;

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
} WEIR_KERNEL;

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	u32 priority;
	u16 tc_index;
	u16 network_header;
	unsigned int end; /* an offset from head, as on all 64-bit machines */
	unsigned char *head;
	unsigned char *data;
} WEIR_KERNEL;

struct sk_buff_head {
	u32 qlen;
} WEIR_KERNEL;

struct gnet_stats_queue {
	u32 requeues;
} WEIR_KERNEL;

struct netdev_queue {
	struct net_device *dev;
} WEIR_KERNEL;

struct Qdisc_ops {
	char id[16];
} WEIR_KERNEL;

struct Qdisc {
	const struct Qdisc_ops *ops;
	struct netdev_queue *dev_queue;
	struct sk_buff_head gso_skb;
	struct gnet_stats_queue qstats;
} WEIR_KERNEL;

#endif /* WEIR_CORE_H */
