/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of crq.bpf.c and crq_signals.bpf.c share: the maps and the settings that user space writes before
 * it loads them. Settings are constants to the verifier, which drops the branches that they rule out.
 */
#ifndef WEIR_CRQ_MAPS_H
#define WEIR_CRQ_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#ifndef WEIR_NO_JUDGE
/* What the judge computes on its way; softirqs are off, so nobody comes between. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, unsigned int);
	__type(value, short[64]);
} scratch SEC(".maps");

#define WEIR_FEATURES_AT(name)     \
	unsigned int nothing = 0;      \
	short *name = bpf_map_lookup_elem(&scratch, &nothing)
#endif

#include "table.h"

/* Written at load into a read-only section of its own; crates/weir-kernel/src/config.rs mirrors the layout. */
struct weir_crq_config {
	struct weir_table_params table;
	struct weir_law_params law;
	u32 version;            /* of this layout and the table's */
	u32 ifindex;            /* of the queue's device */
	u32 netns;              /* inode of its network namespace */
	u32 redirect_to;        /* ifindex that `redirect` hands packets to */
	u32 reason_subsystem;   /* upper half of the drop reasons in `reasons_of_subsystem` */
	u16 major;              /* of HTB's handle */
	u8 start;               /* enum weir_start: which header a packet's data begin with */
	u8 test_clock;          /* 1: a packet's time stamp is the time */
	u8 emit_events;         /* 1: each ended cycle is written to `events` */
	u8 fast;                /* 1: the settings are those that fast_path.h knows (weir_fast_applies) */
	u8 reserved[6];
	u8 reasons[256];        /* 1 for each core drop reason that is a queue discipline's */
	u8 reasons_of_subsystem[64];
};

const volatile struct weir_crq_config config SEC(".rodata.config") = {};

/* A class of HTB's, as skb->priority selects it (net/sched/sch_htb.c, htb_classify). */
#define WEIR_RESPONSIVE_MINOR 1
#define WEIR_STANDARD_MINOR 2

/* skb->tc_index: in which cycle the packet came, and whether CE came with it. */
#define WEIR_STAMP_CYCLE 0x7fff
#define WEIR_STAMP_ARRIVED_CE 0x8000

/* An ended cycle, for whoever listens. */
struct weir_event {
	u64 time; /* ns, CLOCK_MONOTONIC */
	struct weir_key key;
	u32 ascending; /* 1: forward goes from the key's low end to its high end */
	u32 reserved;
	struct weir_outcome outcome;
};

/* The coarse time as it was when this processor first asked in the present tick of the kernel. */
struct weir_clock {
	u64 ticks; /* jiffies */
	u64 now;   /* ns, CLOCK_MONOTONIC */
};

/* What each processor has for itself. */
struct weir_local {
	struct weir_counters counters; /* first: who reads them knows of no more */
	struct weir_clock clock;
	/* the one that goes the whole way. Softirqs are off where programs run: nobody comes between */
	struct weir_packet packet;
};

/* Sizes are set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_bucket);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_waiting);
} waiting SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_filter);
} filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_local);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/*
 * A pointer to settings that the compiler takes for ordinary memory: it would otherwise fold in the zeros of the
 * initialiser once `volatile` is gone. The verifier still sees through it.
 */
#define SETTINGS                                                        \
	({                                                              \
		const void *at = (const void *)(long)&config;           \
		asm volatile("" : "+r"(at));                            \
		(const struct weir_crq_config *)at;                     \
	})
#define SETTING(field) (&SETTINGS->field)

#endif /* WEIR_CRQ_MAPS_H */
