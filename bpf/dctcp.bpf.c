// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DCTCP (RFC 8257) for the kernel's TCP, for kernels that are built without: a tcp_congestion_ops made of eBPF programs
 * (struct_ops). Its numbers are those of Linux (net/ipv4/tcp_dctcp.c), which differs from the RFC: it counts segments
 * and not bytes, alpha is of 1024 and falls to 0 from 16 / 1024, and nothing grows while the window is reduced.
 *
 * What a program may not do and Linux does: tell its alpha to ss(8) (get_info). A connection without ECN is handed to
 * Reno by name.
 */
#include <linux/bpf.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The fields that are used, found by name in the running kernel's own type information. */
#define KERNEL __attribute__((preserve_access_index))

struct sock_common {
	unsigned char skc_state;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct inet_connection_sock {
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[104 / sizeof(__u64)];
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 delivered;
	__u32 delivered_ce;
	__u8 ecn_flags;
} KERNEL;

/* The members that are set; libbpf finds the place of each by its name. include/net/tcp.h */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 flags;
	char name[16];
};

/* include/net/tcp.h; the ECN modes are called TCP_ECN_OK and TCP_ECN_MODE_ACCECN there. */
#define TCP_CONG_NEEDS_ECN 2
#define ECN_MODES (1 | 16)
#define TCP_ECN_DEMAND_CWR 4
enum {
	CA_EVENT_LOSS = 3,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};
/* include/net/inet_connection_sock.h */
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
#define SOL_TCP 6

/* Linux's dctcp_shift_g, and the value of an alpha of 1. */
#define GAIN_SHIFT 4
#define ALPHA_SHIFT 10
#define ALPHA_MOST (1 << ALPHA_SHIFT)
#define WINDOW_LEAST 2

/* What is kept of a connection, in its icsk_ca_priv. */
struct dctcp {
	/* The average share of marked segments, of 1024. */
	__u32 alpha;
	/* Where the round trip under way ends, and what was delivered and marked when it began. */
	__u32 round_end;
	__u32 delivered;
	__u32 delivered_ce;
	/* The window when it was last reduced. */
	__u32 reduced_from;
	/* The receiver's: where the next packet was to begin when the last one came, and whether that was marked. */
	__u32 came_until;
	__u8 marked;
	/* The sender's TCP_CA_ state. */
	__u8 state;
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct dctcp *dctcp_of(struct sock *sk)
{
	return (struct dctcp *)tcp_of(sk)->inet_conn.icsk_ca_priv;
}

static __always_inline void begin_round(const struct tcp_sock *tcp, struct dctcp *dctcp)
{
	dctcp->round_end = tcp->snd_nxt;
	dctcp->delivered = tcp->delivered;
	dctcp->delivered_ce = tcp->delivered_ce;
}

/* RFC 8257 section 3.5: a loss is answered as by any TCP, whatever alpha says. */
static __always_inline void halve(struct tcp_sock *tcp, struct dctcp *dctcp)
{
	__u32 window = tcp->snd_cwnd, half = window / 2;

	dctcp->reduced_from = window;
	tcp->snd_ssthresh = half > WINDOW_LEAST ? half : WINDOW_LEAST;
}

/* Whether acknowledgements carry ECE is all that the kernel's receiver asks DEMAND_CWR for. */
static __always_inline void echo(struct tcp_sock *tcp, int marked)
{
	__u8 flags = tcp->ecn_flags & ~TCP_ECN_DEMAND_CWR;

	tcp->ecn_flags = marked ? flags | TCP_ECN_DEMAND_CWR : flags;
}

/*
 * RFC 8257 section 3.2: each acknowledgement is for packets that are all marked or all unmarked. One that still waits
 * goes out with the old state, and the packet that differs is acknowledged at once.
 */
static __always_inline void came(struct tcp_sock *tcp, struct dctcp *dctcp, int marked)
{
	if (marked != dctcp->marked) {
		if (tcp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tcp, dctcp->marked);
			bpf_tcp_send_ack(tcp, dctcp->came_until);
		}
		tcp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
		dctcp->marked = marked;
	}
	dctcp->came_until = tcp->rcv_nxt;
	echo(tcp, marked);
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tcp = tcp_of(sk);
	struct dctcp *dctcp = dctcp_of(sk);

	if (!(tcp->ecn_flags & ECN_MODES)) {
		char reno[] = "reno";

		/* Which also takes ECT off the packets. The kernel always has it. */
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
	dctcp->alpha = ALPHA_MOST;
	dctcp->reduced_from = 0;
	dctcp->came_until = tcp->rcv_nxt;
	dctcp->marked = 0;
	dctcp->state = TCP_CA_Open;
	begin_round(tcp, dctcp);
}

/* The window after marks: less by alpha / 2 of it, rounded down. */
SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *dctcp = dctcp_of(sk);
	__u32 window = tcp_of(sk)->snd_cwnd, less;

	dctcp->reduced_from = window;
	less = window - (__u32)((__u64)window * dctcp->alpha >> (ALPHA_SHIFT + 1));
	return less > WINDOW_LEAST ? less : WINDOW_LEAST;
}

SEC("struct_ops")
void BPF_PROG(dctcp_grow, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(dctcp_acked, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tcp = tcp_of(sk);
	struct dctcp *dctcp = dctcp_of(sk);
	__u32 alpha = dctcp->alpha, forgotten = alpha >> GAIN_SHIFT, marked, delivered;

	if ((__s32)(tcp->snd_una - dctcp->round_end) < 0)
		return;
	/* A small alpha has no sixteenth and is forgotten as a whole. */
	alpha -= forgotten ?: alpha;
	marked = tcp->delivered_ce - dctcp->delivered_ce;
	if (marked) {
		delivered = tcp->delivered - dctcp->delivered;
		alpha += (marked << (ALPHA_SHIFT - GAIN_SHIFT)) / (delivered ?: 1);
		if (alpha > ALPHA_MOST)
			alpha = ALPHA_MOST;
	}
	dctcp->alpha = alpha;
	begin_round(tcp, dctcp);
}

SEC("struct_ops")
void BPF_PROG(dctcp_state, struct sock *sk, __u8 state)
{
	struct dctcp *dctcp = dctcp_of(sk);

	if (state == TCP_CA_Recovery && dctcp->state != TCP_CA_Recovery)
		halve(tcp_of(sk), dctcp);
	dctcp->state = state;
}

SEC("struct_ops")
void BPF_PROG(dctcp_event, struct sock *sk, __u32 event)
{
	struct tcp_sock *tcp = tcp_of(sk);
	struct dctcp *dctcp = dctcp_of(sk);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		came(tcp, dctcp, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_LOSS)
		halve(tcp, dctcp);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo, struct sock *sk)
{
	__u32 window = tcp_of(sk)->snd_cwnd, before = dctcp_of(sk)->reduced_from;

	return window > before ? window : before;
}

/* Of link type (Linux 6.4): it goes when the process that has registered it goes. */
SEC(".struct_ops.link")
struct tcp_congestion_ops weir_dctcp = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_grow,
	.set_state = (void *)dctcp_state,
	.cwnd_event = (void *)dctcp_event,
	.in_ack_event = (void *)dctcp_acked,
	.undo_cwnd = (void *)dctcp_undo,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "weir_dctcp",
};

char LICENSE[] SEC("license") = "GPL";
