/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the responsiveness law of law.h keeps and hands out: a flow's key and state, its settings with their two
 * presets, and the records of ended cycles and judgements. Layouts are fixed; the Rust side mirrors them and compares
 * every offset.
 */
#ifndef WEIR_LAW_STATE_H
#define WEIR_LAW_STATE_H

#include "packet.h"

/* The identity of a flow: both directions give the same key. Ordered by address, then by port. No padding, so that keys
 * can be hashed and compared by words. */
struct weir_key {
	union {
		struct {
			u8 low[16];
			u8 high[16];
			u16 low_port;
			u16 high_port;
			u8 protocol;
			u8 reserved[3];
		};
		u64 words[5];
	};
};

/* Ports and protocol of a key, as they lie in it. */
WEIR_INLINE u64 weir_last_word(u32 low_port, u32 high_port, u32 protocol)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (u64)protocol << 32 | high_port << 16 | low_port;
#else
	return (u64)low_port << 48 | (u64)high_port << 32 | protocol << 24;
#endif
}

/* All bits where a > b, else none: without a branch, whose way would be another for each flow. */
WEIR_INLINE u64 weir_above(u64 a, u64 b)
{
	u64 borrow = (~b & a) | (~(b ^ a) & (b - a)), mask = (u64)((s64)borrow >> 63);

#ifdef __bpf__
	asm volatile("" : "+r"(mask)); /* or it becomes one branch for each that it is applied to */
#endif
	return mask;
}

/* Writes the key of a TCP or UDP packet; returns 1 if the packet goes from the low end to the high end. */
WEIR_INLINE u32 weir_key_of(const struct weir_packet *packet, u32 with_protocol, struct weir_key *key)
{
	u64 src = WEIR_TURN64(packet->src_words[0]), dst = WEIR_TURN64(packet->dst_words[0]);
	u64 turn, first, second, ports;

	if (src == dst) {
		src = WEIR_TURN64(packet->src_words[1]);
		dst = WEIR_TURN64(packet->dst_words[1]);
		if (src == dst) {
			src = packet->src_port;
			dst = packet->dst_port;
		}
	}
	turn = weir_above(src, dst);
	first = (packet->src_words[0] ^ packet->dst_words[0]) & turn;
	second = (packet->src_words[1] ^ packet->dst_words[1]) & turn;
	ports = (packet->src_port ^ packet->dst_port) & turn;
	key->words[0] = packet->src_words[0] ^ first;
	key->words[1] = packet->src_words[1] ^ second;
	key->words[2] = packet->dst_words[0] ^ first;
	key->words[3] = packet->dst_words[1] ^ second;
	key->words[4] = weir_last_word(packet->src_port ^ (u32)ports, packet->dst_port ^ (u32)ports,
				       with_protocol ? packet->protocol : 0);
	return !turn;
}

enum weir_signal {
	WEIR_LOSS = 0,
	WEIR_MARK = 1,
};

/* What a flow has been found to be, for one kind of signal. */
enum weir_verdict {
	WEIR_UNCLASSIFIED = 0,
	WEIR_RESPONSIVE = 1,
	WEIR_UNRESPONSIVE = 2,
};

enum weir_choice {
	WEIR_STANDARD_QUEUE = 0,
	WEIR_RESPONSIVE_QUEUE = 1,
	WEIR_ECN_RESPONSIVE_QUEUE = 2, /* only where both signal kinds choose (paper section V) */
};

/* As the main signal: both kinds choose. Not in the kernel, whose classifier has two classes. */
#define WEIR_BOTH_SIGNALS 2

/* What the end of a cycle did to the verdict. */
enum weir_judgement {
	WEIR_NO_SIGNAL = 0,       /* the cycle two before had no signal */
	WEIR_VOTED = 1,
	WEIR_SMALL_WINDOW = 2,    /* signal, but the window was below the minimum */
	WEIR_PARTIAL_CYCLE = 3,   /* signal in the first cycle, whose window is not known in full */
};

/* All switches are 0 or 1. */
struct weir_law_params {
	u32 mss;                    /* bytes of a full segment, for the minimum window */
	u32 min_window_segments;    /* smaller windows are not judged */
	u32 response_numerator;     /* responsive iff W[n] <= numerator / denominator x W[n-2] */
	u32 response_denominator;
	u8 main_signal;             /* enum weir_signal whose verdict chooses the queue, or WEIR_BOTH_SIGNALS */
	u8 tie;                     /* enum weir_verdict on equal votes; 0 keeps the verdict */
	u8 spin_debounce;           /* T: an edge is the T-th packet in a row with the new spin value; 1..16 */
	u8 spin_from_accepted;      /* an edge must change the accepted value; else T-bit pattern match alone */
	u8 first_spin_counts;       /* the first packet's spin is the start value; else the start value is 0 */
	u8 coalesced_spin;          /* take edges from a short header behind long ones */
	u8 long_header_counts;      /* long-header packets count in full and go by the verdict */
	u8 quic_needs_initial;      /* no edges on a flow that showed no Initial */
	u8 full_cycles;             /* TCP: wait for the second half cycle (paper Fig. 2) */
	u8 modular_sequence;        /* TCP: compare sequence numbers modulo 2^32 */
	u8 marker_needs_data;       /* TCP: a marker carries payload and advances the right edge */
	u8 second_marker_on_match;  /* TCP: the second marker is the matching ACK; else the cycle's first reverse packet */
	u8 sack_completes_half;     /* TCP: a SACK block beyond the marker completes the first half */
	u8 first_bytes_count;       /* TCP: count packets that come before state is complete */
	u8 skip_first_cycle;        /* never judge by the first, partial cycle */
	u8 min_window_on_signalled; /* the minimum applies to W[n-2], else to W[n] */
	u8 min_window_inclusive;    /* a window of exactly the minimum is judged */
	u8 wide_arithmetic;         /* 64-bit products, saturating windows; else all modulo 2^32 */
	u8 book_by_packet;          /* a signal belongs to its packet's cycle; else to the current one */
	u8 byte_counters;           /* four 8-bit signal counters in one word: losses carry over, marks saturate */
	u8 count_segments;          /* a signal weighs as many as its packet has segments; else one */
	u8 count_arriving_ce;       /* CE set upstream counts as a mark */
	u8 udp_bytes_from_frame;    /* UDP window bytes are frame bytes - 42; else payload */
	u8 reset_on_switch;         /* forget signals when the chosen queue changes */
	u8 reset_on_open;           /* SYN with a new sequence number, or a new Initial, starts the entry afresh */
	u8 full_parser;             /* else: untagged IPv4 without options only, as the prototype reads */
	u8 key_has_protocol;        /* TCP and UDP on the same addresses and ports are two flows */
	u8 ignore_optimistic_acks;  /* TCP: an ACK of data that was not seen going forward says nothing */
	u8 plausible_sequence;      /* TCP: segments and ACKs outside what can be in flight say nothing */
	u8 lapse_round_trips;       /* of activity without the end of a cycle, after which cycles begin anew; 0 never */
	u8 verdict_lapses;          /* ...and with them verdicts and votes */
	u8 votes_kept;              /* both counts are halved when their sum exceeds this; 0 keeps all */
	u8 spin_needs_reverse;      /* QUIC: an edge counts if the other direction's bit changed since the last */
	u8 loss_without_ecn;        /* where marks choose, a flow that is Not-ECT goes by its verdict on losses */
	u8 timestamp_cycles;        /* TCP: the echo of the other direction's newest timestamp completes the second half */
	u8 cycle_guard;             /* no cycle is shorter than half of what its flow's short ones take */
	u8 whole_conduct;           /* a vote is what the judge makes of all cycles so far; else of two windows */
	u8 unused[3];
};

#define WEIR_HISTORY 3 /* the cycles n, n-1 and n-2: nothing older is judged by */

/* weir_flow.state */
#define WEIR_SEEN_FORWARD 0x0001
#define WEIR_HAS_MARKER 0x0002
#define WEIR_HAS_ACK 0x0004
#define WEIR_HALF_DONE 0x0008 /* the second marker is set */
#define WEIR_HAS_EDGE 0x0010
#define WEIR_HAS_SPIN 0x0020         /* QUIC */
#define WEIR_SEEN_INITIAL 0x0040
#define WEIR_SHORT_FORWARD 0x0080
#define WEIR_SHORT_REVERSE 0x0100
#define WEIR_HAS_ISN 0x0200
#define WEIR_OPENING 0x0400         /* a SYN or Initial waits for its answer... */
#define WEIR_OPENING_REVERSE 0x0800 /* ...and came from the other direction */
#define WEIR_REVERSE_SPIN 0x1000    /* QUIC: the spin bit of the other direction */
#define WEIR_REVERSE_SPUN 0x2000    /* QUIC: it changed since the last edge */
#define WEIR_DOUBTED 0x8000         /* a segment contradicted edges that no acknowledgement has borne out */
#define WEIR_IS_ECT 0x4000          /* a forward packet had an ECN codepoint other than Not-ECT */
/* With timestamp_cycles TCP has these in the place of three of QUIC's: what was never seen of a flow is not set. */
#define WEIR_MARKER_STAMPED 0x0020 /* a marker had a timestamp... */
#define WEIR_IS_STAMP 0x1000       /* ...and so had the other direction: `newest` and the second marker are timestamps */
#define WEIR_HAS_NEWEST 0x2000

/* What the connection has shown of itself, which no change of law or lapse makes undone. */
#define WEIR_SHOWN \
	(WEIR_SEEN_INITIAL | WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE | WEIR_HAS_ISN | WEIR_OPENING | WEIR_OPENING_REVERSE | \
	 WEIR_IS_ECT)

/* Coarse time: 2^20 ns, about 1.05 ms, modulo 2^32 (52 days). */
#define WEIR_TICK_SHIFT 20

/* Segments and ACKs may be this far outside of what is known to be in flight: the largest window without scaling (RFC
 * 9293 section 3.1). */
#define WEIR_SEQUENCE_SLACK 0x10000

/* More cannot be in flight: the largest window with scaling (RFC 7323 section 2.3). */
#define WEIR_MAX_FLIGHT 0x40000000

/* A last cycle shorter than this many ns is a few milliseconds, of which most clocks of timestamps count one at a time:
 * then an echo completes the second half only if it is of a later one. */
#define WEIR_FEW_TICKS 4000000

/* The guard against short cycles learns from this many cycles first, as they come... */
#define WEIR_GUARD_LEARNS 8
/* ...then goes down a step in 2^2 that are shorter, and up in 2^4 that are longer... */
#define WEIR_GUARD_DOWN 2
#define WEIR_GUARD_UP 4
/* ...and no further than 168 ms: who sends little has pauses in each of the first. */
#define WEIR_GUARD_MOST 0xb4

/* The stamp of a packet that nothing bears out is this far behind its flow's cycle: a signal on it comes late, also
 * where a stamp has 15 bits. */
#define WEIR_UNBOOKED 0x4000

/*
 * What a flow's conduct has been: running means over its cycles, by which judge.h judges. Logs of base 2 in units of
 * 1/256; `x4` and the like say by how much a mean is finer than that. A window is payload bytes of a cycle, a rate those
 * over its length. A block is eight cycles.
 */
struct weir_conduct {
	u16 rate[2];          /* of the two cycles before */
	s16 block_window;     /* sums over the present block of what cycles are above the mean */
	s16 block_rate;
	u16 mean_window;      /* x2, of blocks */
	u16 mean_rate;        /* x2 */
	u16 spread_window;    /* x16, what blocks differ from their mean by */
	u16 spread_rate;      /* x16 */
	u16 last_window;      /* of the block before */
	u16 last_rate;
	s16 after_signals;    /* x16, change of window from a block with signals to the next */
	s16 after_quiet;      /* x16, from one without */
	u16 highest;          /* windows of blocks, forgotten slowly */
	u16 lowest;
	s16 later_window;     /* x16, change over the two cycles behind one with signals */
	s16 later_rate;       /* x16 */
	u16 jump_window;      /* x16, what a cycle differs from the one before by */
	u16 jump_rate;        /* x16 */
	s16 gave_window;      /* x16, change from a cycle with signals to the mean of the second to fifth behind it */
	s16 gave_rate;        /* x16 */
	u16 reference_window; /* of the cycle whose answer is awaited */
	u16 reference_rate;
	s16 sum_window;       /* of changes since */
	s16 sum_rate;
	s16 grew;             /* x64, change of window from cycle to cycle while there are no signals */
	u16 signalled;        /* share of cycles with signals, of 32000 */
	u16 losses;           /* x16, segments a cycle */
	u16 marks;            /* x16 */
	u16 size;             /* x4, log of packets a cycle */
	s16 marked;           /* x8, log of the share of packets that are marked, in cycles with signals */
	u8 cycles;            /* how many values are in each mean, at most 255 */
	u8 blocks;
	u8 signals;
	u8 answers;
	u8 quiet;
	u8 blocks_fell;       /* share of blocks that are smaller than the one before, of 250; so the next three */
	u8 answered;          /* of signals behind which window and rate fell within three cycles */
	u8 lasted;            /* of signals behind which both were lower over four cycles */
	u8 fell_alone;        /* of cycles without signals in which both fell */
	u8 flags;             /* of judge.h, so the next */
	u8 places;
	u8 news;              /* 1: the last cycle told something that a judgement is due on */
};

/*
 * One flow, both directions, in 192 bytes. Index 0 of the arrays is the current cycle n, index 2 is n-2.
 *
 * Two unions hold what never is in use together. Which counters of signals are, is a setting (byte_counters). Which
 * transport's fields are, says `kind`: where the key has no protocol, TCP and QUIC can share an entry, and the one that
 * comes finds the other's fields forgotten (weir_law_turn).
 */
struct weir_flow {
	/* What each packet needs comes first: in a router every line of an entry has to be fetched. */
	u8 kind;              /* WEIR_TCP or WEIR_QUIC: whose fields the second union holds; 0 before either was seen */
	u8 law;               /* by which law it was kept last, where the caller numbers them */
	u8 verdict[2];        /* [enum weir_signal] enum weir_verdict */
	u16 state;
	u16 withheld;         /* signals seen, but window too small or cycle partial; saturates */
	u64 bytes;            /* forward payload since the entry was made */
	u64 packets;
	u32 cycle;            /* counts on over the life of the entry, through resets */
	u32 cycle_packets;
	union {
		struct {
			u32 right_edge;    /* TCP: end of the forward data seen */
			u32 highest_ack;
			u32 marker;        /* TCP: the acknowledgement that completes the first half */
			u32 second_marker; /* TCP: the acknowledgement or echo that completes the second half */
			u32 isn;           /* TCP: of the SYN that opened this connection */
			u32 syn;           /* TCP: of a SYN that waits for its answer */
		};
		struct {
			u32 spin_register; /* QUIC: last 32 spin bits, lowest is newest */
			u8 spin;           /* QUIC: accepted spin value */
			u8 spin_run;       /* QUIC: packets in a row with the other value */
		};
	};
	u32 next_look;        /* ticks: when the flow's activity has lasted for another round trip */
	u32 window[WEIR_HISTORY];
	u64 cycle_started;    /* ns */
	u32 first_cycle;      /* where the present connection began */
	u32 signal_floor;     /* signals of packets from earlier cycles no longer count */
	union {
		struct {
			u16 loss[WEIR_HISTORY];
			u16 mark[WEIR_HISTORY];
		};
		struct {
			u32 loss_register; /* byte_counters: 8 bits per cycle, lowest is current */
			u32 mark_register;
		};
	};
	u16 votes[2][2];      /* [enum weir_signal][0 responsive, 1 unresponsive] */
	u32 last_rtt;         /* ns, length of the last whole cycle, at most 2^32-1; 0 before there is one */
	u16 late_signals;     /* saturates */
	u8 looks;             /* round trips of activity in the present cycle */
	u8 shortest;          /* weir_length_of() what the flow's short cycles take; 0 not known */
	u32 newest;           /* TCP: the newest timestamp of the other direction, or the end of its data */
	struct weir_conduct conduct;
};

struct weir_cycle_end {
	u64 started;
	u64 ended;
	u32 cycle;
	u32 window;
	u32 packets;
	u32 losses;           /* booked to it so far, in segments */
	u32 marks;
	u32 first;            /* 1 for the first, partial cycle */
};

struct weir_assessment {
	u32 cycle;            /* n, the cycle that ended */
	u32 window;           /* W[n] */
	u32 window_between;   /* W[n-1] */
	u32 window_signalled; /* W[n-2] */
	u32 signals[2];       /* [enum weir_signal] booked to n-2 */
	u32 votes[2][2];      /* after this one */
	u8 vote[2];           /* [enum weir_signal] this vote; 0 none */
	u8 class_before;      /* 3 x ECN verdict + loss verdict, 0..8 */
	u8 class_after;
	u8 choice_before;
	u8 choice_after;
	u8 judgement;         /* enum weir_judgement */
	u8 reserved;
};

/* What a forward packet did. */
struct weir_outcome {
	struct weir_cycle_end end;      /* meaningful iff ended */
	struct weir_assessment assessed; /* meaningful iff ended; a vote was cast iff judgement is WEIR_VOTED */
	u32 cycle;                      /* the packet is booked here */
	u8 ended;                       /* 1: this packet opened a new cycle */
	u8 choice;                      /* queue for this packet */
	u8 reset;                       /* 1: this packet opened a new connection on the entry */
	u8 lapsed;                      /* 1: a verdict ended for want of cycles */
};

WEIR_INLINE void weir_law_paper(struct weir_law_params *params)
{
	*params = (struct weir_law_params){
		.mss = 1500,
		.min_window_segments = 4,
		.response_numerator = 9,
		.response_denominator = 10,
		.main_signal = WEIR_LOSS,
		.tie = WEIR_RESPONSIVE,
		.spin_debounce = 1,
		.spin_from_accepted = 1,
		.first_spin_counts = 1,
		.coalesced_spin = 1,
		.long_header_counts = 1,
		.full_cycles = 1,
		.modular_sequence = 1,
		.marker_needs_data = 1,
		.second_marker_on_match = 1,
		.first_bytes_count = 1,
		.skip_first_cycle = 1,
		.min_window_on_signalled = 1,
		.wide_arithmetic = 1,
		.book_by_packet = 1,
		.count_segments = 1,
		.reset_on_switch = 1,
		.reset_on_open = 1,
		.full_parser = 1,
		.key_has_protocol = 1,
		.plausible_sequence = 1,
		.lapse_round_trips = 8,
	};
}

/* The paper's rule for those who have adversaries. */
WEIR_INLINE void weir_law_robust(struct weir_law_params *params)
{
	weir_law_paper(params);
	params->ignore_optimistic_acks = 1;
	params->verdict_lapses = 1;
	params->votes_kept = 32;
	params->spin_needs_reverse = 1;
	params->loss_without_ecn = 1;
	params->sack_completes_half = 1;
	params->timestamp_cycles = 1;
	params->cycle_guard = 1;
	params->whole_conduct = 1;
}

WEIR_INLINE void weir_law_comsys(struct weir_law_params *params)
{
	*params = (struct weir_law_params){
		.mss = 1500,
		.min_window_segments = 4,
		.response_numerator = 9,
		.response_denominator = 10,
		.main_signal = WEIR_LOSS,
		.tie = WEIR_RESPONSIVE,
		.spin_debounce = 1,
		.min_window_inclusive = 1,
		.byte_counters = 1,
		.count_arriving_ce = 1,
		.udp_bytes_from_frame = 1,
		.reset_on_switch = 1,
	};
}

#endif /* WEIR_LAW_STATE_H */
