/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What measure.bpf.c reports to user space of a packet. crates/weir-world/src/kernel/packets.rs reads the same layout.
 */
#ifndef WEIR_MEASURE_H
#define WEIR_MEASURE_H

/* As many as a capture file keeps: enough for the longest headers that the law reads. */
#define WEIR_MEASURED_HEADERS 160

enum weir_measured_kind {
	WEIR_MEASURED_ENQUEUE = 1, /* taken into the queue */
	WEIR_MEASURED_DEQUEUE = 2, /* left for the link */
	WEIR_MEASURED_REFUSE = 3,  /* never got in */
	WEIR_MEASURED_DROP = 4,    /* was in the queue and is gone */
	WEIR_MEASURED_OTHER = 5,   /* leaves by the other device, for captures only */
};

struct weir_measured {
	__u64 time;     /* CLOCK_MONOTONIC, ns */
	__u64 id;       /* the same from offer to departure, then used again */
	__u32 length;   /* frame bytes */
	__u16 kept;     /* bytes of headers that follow */
	__u16 segments; /* of a super-packet; 0 or 1 for a single frame */
	__u16 minor;    /* of the class that the packet was given, 0 if none */
	__u8 kind;      /* enum weir_measured_kind */
	__u8 ecn;       /* codepoint now */
	__u32 reserved;
	__u8 headers[WEIR_MEASURED_HEADERS];
};

#endif /* WEIR_MEASURE_H */
