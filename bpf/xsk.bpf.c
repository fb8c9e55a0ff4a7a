// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hands every frame of an interface to the AF_XDP socket of its receive queue, with the time at which it came. Frames
 * of a queue without a socket go on to the kernel's own stack (the flags argument of bpf_redirect_map is the action on
 * a failed look-up). Unlike the program that libxdp loads by itself, this one stamps: the emulated delay counts from
 * the packet's arrival and not from the moment at which a thread looked at the ring.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* One socket per receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int redirect(struct xdp_md *context)
{
	/* Metadata lies right in front of the packet in the frame and is copied with it. A driver without room for it
	 * leaves zeros there, and the reader then takes its own clock. */
	if (!bpf_xdp_adjust_meta(context, -(int)sizeof(__u64))) {
		__u64 *stamp = (void *)(long)context->data_meta;

		if ((void *)(stamp + 1) <= (void *)(long)context->data)
			*stamp = bpf_ktime_get_ns();
	}
	return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
