// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Both ends of the router that `weir bench law` measures. `data` and `acks` make frames of established TCP flows when the
 * kernel runs them for live frames (BPF_F_TEST_XDP_LIVE_FRAMES): it hands each frame to its network stack as if the
 * interface had received it. `swallow` takes in at the far ends what the router sent, as a network card does that has sent
 * a packet: consumed, not dropped, so that nobody who listens for drops hears of it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FLOWS 64
/* Where the server and the client number from, as the frames of bench/frames.rs do. */
#define SERVER_PORT 443
#define CLIENT_PORT 40000

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

/*
 * Ethernet and IPv4 headers of each kind. The kernel uses a page again for the next frame without restoring it, and
 * forwarding has written to both.
 */
struct {
	__u8 data[sizeof(struct ethhdr) + sizeof(struct iphdr)];
	__u8 acks[sizeof(struct ethhdr) + sizeof(struct iphdr)];
} envelopes;
/* Payload of a data frame, and how many of them an ACK acknowledges. */
const volatile __u32 payload = 1448;
const volatile __u32 stretch = 2;

__u32 turns[2];
__u32 sent[FLOWS];
__u32 acknowledged[FLOWS];

static __always_inline int make_data(struct xdp_md *context)
{
	struct headers *headers = (void *)(long)context->data;
	__u32 flow = turns[0]++ % FLOWS;

	if ((void *)(headers + 1) > (void *)(long)context->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(headers, envelopes.data, sizeof(envelopes.data));
	headers->tcp.source = bpf_htons(SERVER_PORT);
	headers->tcp.dest = bpf_htons(CLIENT_PORT + flow);
	headers->tcp.seq = bpf_htonl(1 + sent[flow]);
	sent[flow] += payload;
	return XDP_PASS;
}

SEC("xdp")
int data(struct xdp_md *context)
{
	return make_data(context);
}

SEC("xdp")
int acks(struct xdp_md *context)
{
	struct headers *headers = (void *)(long)context->data;
	__u32 flow = turns[1]++ % FLOWS;

	if ((void *)(headers + 1) > (void *)(long)context->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(headers, envelopes.acks, sizeof(envelopes.acks));
	headers->tcp.source = bpf_htons(CLIENT_PORT + flow);
	headers->tcp.dest = bpf_htons(SERVER_PORT);
	acknowledged[flow] += stretch * payload;
	headers->tcp.ack_seq = bpf_htonl(1 + acknowledged[flow]);
	return XDP_PASS;
}

/* What making a frame and giving it back costs without a router. */
SEC("xdp")
int nothing(struct xdp_md *context)
{
	return make_data(context) == XDP_PASS ? XDP_DROP : XDP_ABORTED;
}

SEC("tc")
int swallow(struct __sk_buff *packet)
{
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "GPL";
