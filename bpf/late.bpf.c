// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Makes the wake-ups of one device's tbf late: when the timer that it asked for expires, the processor does nothing
 * until so much later (`late` of tbf in world `kernel`). What a busy router does by chance happens to each wake-up.
 */
#include "core.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct hrtimer {
	s64 _softexpires;
	void *function;
} WEIR_KERNEL;

/* include/net/pkt_sched.h; the timer comes first. */
struct qdisc_watchdog {
	struct hrtimer timer;
	struct Qdisc *qdisc;
} WEIR_KERNEL;

/* Looks at the clock: more than fit into the longest time that user space asks for. */
#define MOST_LOOKS 8192

const volatile u32 device = 0;
const volatile u32 net_inode = 0;
const volatile u64 late_ns = 0;

/* What the timers of queue disciplines call (net/sched/sch_api.c). */
extern const void qdisc_watchdog __ksym;

static long look(u32 index, u64 *until)
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
	u64 until;

	if (BPF_CORE_READ(timer, function) != (void *)&qdisc_watchdog)
		return 0;
	qdisc = BPF_CORE_READ(watchdog, qdisc);
	dev = BPF_CORE_READ(qdisc, dev_queue, dev);
	bpf_probe_read_kernel(id, sizeof(id), &BPF_CORE_READ(qdisc, ops)->id);
	if (id[0] != 't' || id[1] != 'b' || id[2] != 'f' || (u32)BPF_CORE_READ(dev, ifindex) != device ||
	    BPF_CORE_READ(dev, nd_net.net, ns.inum) != net_inode)
		return 0;
	until = BPF_CORE_READ(timer, _softexpires) + late_ns;
	bpf_loop(MOST_LOOKS, look, &until, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
