// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Both ends of the router that `weir bench law` measures. `data` and `acks` make frames of established TCP flows when
 * the kernel runs them for live frames (BPF_F_TEST_XDP_LIVE_FRAMES), and put them on the wire to one of the router's
 * interfaces. `swallow` takes in at the far ends what the router sent, as a network card does that has sent a packet:
 * consumed, not dropped, so that nobody who listens for drops hears of it.
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
/*
 * The sum of a frame's pseudo header and TCP header but for the ports and the number that differs: a router's interface
 * merges no segments whose checksum is wrong.
 */
struct {
	__u32 data;
	__u32 acks;
} sums;
/* Payload of a data frame, and how many of them an ACK acknowledges. */
const volatile __u32 payload = 1448;
const volatile __u32 stretch = 2;
/* Data frames of a flow that come in a row. */
__u32 train;
/* Whether the law watches: it has connections of its own, of which it sees all. */
__u32 watched;
/* Whether the next ACKs are of all that was sent. */
__u32 catch_up;

/* The far ends of the wires: data, acknowledgements. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} wires SEC(".maps");

__u32 turns[2];
__u32 sent[2 * FLOWS];
__u32 acknowledged[2 * FLOWS];

/* Where the numbers of a flow are. */
static __always_inline __u32 numbers_of(__u32 flow)
{
	return (watched & 1) * FLOWS + flow;
}

/* The Internet checksum (RFC 1071) of a sum of 16-bit words, in the order of the wire. */
static __always_inline __u16 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return bpf_htons((__u16)~sum);
}

static __always_inline int make_data(struct xdp_md *context)
{
	struct headers *headers = (void *)(long)context->data;
	__u32 flow = turns[0]++ / (train ?: 1) % FLOWS, number;

	if ((void *)(headers + 1) > (void *)(long)context->data_end)
		return 0;
	__builtin_memcpy(headers, envelopes.data, sizeof(envelopes.data));
	number = 1 + sent[numbers_of(flow)];
	headers->tcp.source = bpf_htons(SERVER_PORT);
	headers->tcp.dest = bpf_htons(CLIENT_PORT + flow);
	headers->tcp.seq = bpf_htonl(number);
	headers->tcp.check = folded(sums.data + SERVER_PORT + CLIENT_PORT + flow + (number >> 16) + (number & 0xffff));
	sent[numbers_of(flow)] += payload;
	return 1;
}

SEC("xdp")
int data(struct xdp_md *context)
{
	return make_data(context) ? (int)bpf_redirect_map(&wires, 0, 0) : XDP_ABORTED;
}

SEC("xdp")
int acks(struct xdp_md *context)
{
	struct headers *headers = (void *)(long)context->data;
	__u32 flow = turns[1]++ % FLOWS, number;

	if ((void *)(headers + 1) > (void *)(long)context->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(headers, envelopes.acks, sizeof(envelopes.acks));
	if (catch_up)
		acknowledged[numbers_of(flow)] = sent[numbers_of(flow)];
	else
		acknowledged[numbers_of(flow)] += stretch * payload;
	number = 1 + acknowledged[numbers_of(flow)];
	headers->tcp.source = bpf_htons(CLIENT_PORT + flow);
	headers->tcp.dest = bpf_htons(SERVER_PORT);
	headers->tcp.ack_seq = bpf_htonl(number);
	headers->tcp.check = folded(sums.acks + SERVER_PORT + CLIENT_PORT + flow + (number >> 16) + (number & 0xffff));
	return (int)bpf_redirect_map(&wires, 1, 0);
}

/* What making a frame and giving it back costs without a router. */
SEC("xdp")
int nothing(struct xdp_md *context)
{
	return make_data(context) ? XDP_DROP : XDP_ABORTED;
}

SEC("tc")
int swallow(struct __sk_buff *packet)
{
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "GPL";
