// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Makes the wake-ups of one device's tbf late: when the timer that it asked for expires, the processor does nothing
 * until so much later (`late` of tbf in world `kernel`). What a busy router does by chance happens to each wake-up.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The fields that are read, found by name in the running kernel's own type information. */
#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL;

struct netdev_queue {
	struct net_device *dev;
} KERNEL;

struct Qdisc_ops {
	char id[16];
} KERNEL;

struct Qdisc {
	const struct Qdisc_ops *ops;
	struct netdev_queue *dev_queue;
} KERNEL;

struct hrtimer {
	__s64 _softexpires;
	void *function;
} KERNEL;

/* include/net/pkt_sched.h; the timer comes first. */
struct qdisc_watchdog {
	struct hrtimer timer;
	struct Qdisc *qdisc;
} KERNEL;

/* Looks at the clock: more than fit into the longest time that user space asks for. */
#define MOST_LOOKS 8192

const volatile __u32 device = 0;
const volatile __u32 net_inode = 0;
const volatile __u64 late_ns = 0;

/* What the timers of queue disciplines call (net/sched/sch_api.c). */
extern const void qdisc_watchdog __ksym;

/* Wake-ups that were made late. */
__u64 delayed = 0;

static long look(__u32 index, __u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(expired, struct hrtimer *timer)
{
	const struct qdisc_watchdog *watchdog = (const struct qdisc_watchdog *)timer;
	const struct net_device *dev;
	const struct Qdisc *qdisc;
	char id[4] = {};
	__u64 until;

	if (BPF_CORE_READ(timer, function) != (void *)&qdisc_watchdog)
		return 0;
	qdisc = BPF_CORE_READ(watchdog, qdisc);
	dev = BPF_CORE_READ(qdisc, dev_queue, dev);
	bpf_probe_read_kernel(id, sizeof(id), &BPF_CORE_READ(qdisc, ops)->id);
	if (id[0] != 't' || id[1] != 'b' || id[2] != 'f' || (__u32)BPF_CORE_READ(dev, ifindex) != device ||
	    BPF_CORE_READ(dev, nd_net.net, ns.inum) != net_inode)
		return 0;
	until = BPF_CORE_READ(timer, _softexpires) + late_ns;
	bpf_loop(MOST_LOOKS, look, &until, 0);
	__sync_fetch_and_add(&delayed, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
