/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The responsiveness law: SpinTrap for QUIC and TCPTrap for TCP (Kunze et al., "Congestion-Responsive Queuing for
 * Internet Flows", NOMS 2025, section III). It cuts a flow into cycles of one round trip, counts the payload bytes of
 * each (its window), books the losses and CE marks that the bottleneck put on the flow, and two cycles after a signal
 * asks whether the window has shrunk. The majority of these votes decides which of two queues the flow has earned.
 *
 * Pure state machines: packets and time are passed in, decisions handed back. Every point where the paper and its public
 * prototype differ is one field of struct weir_law_params; docs/law.md lists them.
 */
#ifndef WEIR_LAW_H
#define WEIR_LAW_H

#include "judgement.h"

/* Whether the law keeps an entry for this packet at all. What it does not see goes to the standard queue, uncounted. */
WEIR_INLINE u32 weir_law_sees(const struct weir_law_params *params, const struct weir_packet *packet)
{
	if (packet->kind != WEIR_TCP && packet->kind != WEIR_UDP && packet->kind != WEIR_QUIC)
		return 0;
	if (params->full_parser)
		return 1;
	/* The prototype's classifier reads fixed offsets behind an untagged Ethernet header, and asks for more bytes than
	 * it needs: 55 of a TCP frame, 3 of a UDP payload; UDP without the fixed bit is not for it. */
	if (packet->ip_version != 4 || (packet->layers & (WEIR_TAGGED | WEIR_IP_OPTIONS)))
		return 0;
	if (packet->kind == WEIR_TCP)
		return packet->ip_bytes > 40;
	return packet->kind == WEIR_QUIC && packet->payload_bytes > 2;
}

/* Whether the prototype's long-header branch has nothing to count in this packet: it makes no entry for it either. */
WEIR_INLINE u32 weir_law_skips(const struct weir_law_params *params, const struct weir_packet *packet)
{
	return !params->long_header_counts && (packet->quic_flags & WEIR_QUIC_LONG) &&
	       !(packet->quic_flags & WEIR_QUIC_SHORT);
}

/* Whether a packet of a flow without an entry gets one. In the reverse direction the prototype looks at IPv4 TCP only, but
 * there it follows the headers properly. */
WEIR_INLINE u32 weir_law_opens(const struct weir_law_params *params, const struct weir_packet *packet, u32 reverse)
{
	if (reverse && !params->full_parser)
		return packet->kind == WEIR_TCP && packet->ip_version == 4;
	return weir_law_sees(params, packet) && !weir_law_skips(params, packet);
}

WEIR_INLINE u32 weir_add_bytes(const struct weir_law_params *params, u32 window, u32 bytes)
{
	u64 sum = (u64)window + bytes;

	return params->wide_arithmetic && sum > 0xffffffffu ? 0xffffffffu : (u32)sum;
}

/* `a` at or beyond `b` in sequence space. */
WEIR_INLINE u32 weir_reached(const struct weir_law_params *params, u32 a, u32 b)
{
	return params->modular_sequence ? (s32)(a - b) >= 0 : a >= b;
}

/* The prototype's second chance for a comparison across the wrap: limit in the last quarter, value in the first. */
WEIR_INLINE u32 weir_wrapped(const struct weir_law_params *params, u32 value, u32 limit)
{
	return !params->modular_sequence && limit > 0xffffffffu - 0x3fffffffu && value < 0x3fffffffu;
}

/* A new connection on the same key: everything but the cycle count starts afresh, so that signals of the old
 * connection's packets cannot be booked to the new one. */
WEIR_INLINE void weir_reopen(struct weir_flow *flow)
{
	u32 cycle = flow->cycle + 1;
	u64 bytes = flow->bytes, packets = flow->packets;
	u8 kind = flow->kind, law = flow->law;

	*flow = (struct weir_flow){
		.cycle = cycle,
		.first_cycle = cycle,
		.signal_floor = cycle,
		.bytes = bytes,
		.packets = packets,
		.kind = kind,
		.law = law,
	};
}

/*
 * Law number `law` goes on with the flow. If that was kept by another, verdicts and votes stay, and what the connection has
 * shown of itself. But what was counted towards the next judgements was counted by other rules and maybe in other registers:
 * cycles begin anew, as for a flow that is met midway.
 */
WEIR_INLINE void weir_take_over(struct weir_flow *flow, u32 law)
{
	int i;

	if (flow->law == law)
		return;
	flow->law = (u8)law;
	flow->cycle++;
	flow->first_cycle = flow->cycle;
	flow->signal_floor = flow->cycle;
	flow->cycle_packets = 0;
	for (i = 0; i < WEIR_HISTORY; i++)
		flow->window[i] = 0;
	weir_forget_signals(flow);
	flow->state &= WEIR_SEEN_INITIAL | WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE | WEIR_ISN_FORWARD | WEIR_ISN_REVERSE;
	flow->spin_run = 0; /* for TCP a part of the right edge, which the state no longer says is there */
}

/* Prepares the fields that transports share for this packet's. They change hands only where the key has no protocol. */
WEIR_INLINE void weir_law_turn(struct weir_flow *flow, const struct weir_packet *packet)
{
	if (packet->kind == WEIR_UDP || packet->kind == flow->kind)
		return;
	flow->kind = packet->kind;
	flow->state &= WEIR_SEEN_FORWARD | WEIR_SEEN_INITIAL | WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE;
	flow->marker = 0;
	flow->right_edge = 0;
	flow->highest_ack = 0;
	flow->second_marker = 0;
	flow->isn_forward = 0;
	flow->isn_reverse = 0;
}

/* Recognises the opening of a connection in either direction; returns 1 where it reset a used entry. */
WEIR_INLINE u32 weir_open(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet,
			  u32 reverse)
{
	u32 reset = 0;

	if (packet->kind == WEIR_TCP && (packet->tcp_flags & WEIR_SYN)) {
		u16 known = reverse ? WEIR_ISN_REVERSE : WEIR_ISN_FORWARD;
		u32 isn = reverse ? flow->isn_reverse : flow->isn_forward;
		/* Data before a first SYN in this direction, or another ISN: an earlier connection. The other end's SYN of
		 * the same handshake is neither. */
		u32 used = (flow->state & known) ? isn != packet->tcp_seq : (flow->state & WEIR_HAS_MARKER) != 0;

		if (params->reset_on_open && used) {
			weir_reopen(flow);
			reset = 1;
		}
		flow->state |= known;
		if (reverse)
			flow->isn_reverse = packet->tcp_seq;
		else
			flow->isn_forward = packet->tcp_seq;
	}
	if (packet->kind == WEIR_QUIC && (packet->quic_flags & WEIR_QUIC_INITIAL)) {
		/* Initials end where both ends have sent short headers; a late one within the handshake resets nothing. */
		u16 both = WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE;

		if (params->reset_on_open &&
		    ((flow->state & both) == both || flow->cycle - flow->first_cycle >= 2)) {
			weir_reopen(flow);
			reset = 1;
		}
		flow->state |= WEIR_SEEN_INITIAL;
	}
	if (packet->kind == WEIR_QUIC && (packet->quic_flags & WEIR_QUIC_SHORT))
		flow->state |= reverse ? WEIR_SHORT_REVERSE : WEIR_SHORT_FORWARD;
	return reset;
}

/* SpinTrap: whether this packet shows an edge of the spin bit. */
WEIR_INLINE u32 weir_spin_edge(const struct weir_law_params *params, struct weir_flow *flow,
			       const struct weir_packet *packet)
{
	u32 spin = (packet->quic_flags & WEIR_QUIC_SPIN) != 0;
	u32 debounce = params->spin_debounce < 1 ? 1 : params->spin_debounce > 16 ? 16 : params->spin_debounce;
	u32 edge;

	if (!(packet->quic_flags & WEIR_QUIC_SHORT) || (params->quic_needs_initial && !(flow->state & WEIR_SEEN_INITIAL)))
		return 0;
	if (packet->quic_flags & WEIR_QUIC_LONG) {
		if (!params->coalesced_spin) {
			/* The prototype starts such a flow with a neighbour of the spin bit, which header protection scrambles. */
			if (!(flow->state & WEIR_HAS_SPIN)) {
				flow->state |= WEIR_HAS_SPIN;
				flow->spin = packet->quic_first >> 4 & 1;
				flow->spin_register = flow->spin;
			}
			return 0;
		}
	}
	if (!(flow->state & WEIR_HAS_SPIN)) {
		flow->state |= WEIR_HAS_SPIN;
		flow->spin = params->first_spin_counts ? (u8)spin : 0;
		flow->spin_register = flow->spin ? 0xffffffffu : 0;
		return 0;
	}
	if (params->spin_from_accepted) {
		if (spin == flow->spin) {
			flow->spin_run = 0;
			return 0;
		}
		flow->spin_run++;
		if (flow->spin_run < debounce)
			return 0;
		flow->spin = (u8)spin;
		flow->spin_run = 0;
		return 1;
	}
	edge = (((flow->spin_register + spin) ^ (1u << (debounce - 1))) & ((1u << debounce) - 1)) == 0;
	flow->spin_register = flow->spin_register << 1 | spin;
	return edge;
}

/* TCPTrap: whether both halves of the cycle are complete, the second by a forward packet with this acknowledgement. */
WEIR_INLINE u32 weir_tcp_complete(const struct weir_law_params *params, const struct weir_flow *flow, u32 ack)
{
	u32 first = weir_reached(params, flow->highest_ack, flow->marker);
	u32 second = (flow->state & WEIR_HALF_DONE) != 0 && weir_reached(params, ack, flow->second_marker);

	if (params->full_cycles)
		return (first || weir_wrapped(params, flow->highest_ack, flow->marker)) && second;
	/* as C's precedence reads `first || wrapped && second` */
	return first || (weir_wrapped(params, flow->highest_ack, flow->marker) && second);
}

/* TCPTrap: whether this forward packet ends the cycle, and if so, or if there is none yet, makes it the next marker. */
WEIR_INLINE u32 weir_tcp_edge(const struct weir_law_params *params, struct weir_flow *flow,
			      const struct weir_packet *packet)
{
	u32 end = packet->tcp_seq + packet->payload_bytes;
	u32 flags = packet->tcp_flags;
	u32 phantom = ((flags & WEIR_SYN) != 0) + ((flags & WEIR_FIN) != 0);
	u32 advances = !(flow->state & WEIR_HAS_EDGE) || (s32)(end + phantom - flow->right_edge) > 0;

	if (advances) {
		flow->right_edge = end + phantom;
		flow->state |= WEIR_HAS_EDGE;
	}
	if (params->marker_needs_data && !(advances && packet->payload_bytes))
		return 0;
	if (!(flow->state & WEIR_HAS_MARKER)) {
		flow->state |= WEIR_HAS_MARKER;
		flow->marker = end;
		return 0;
	}
	if (!(flow->state & WEIR_HAS_ACK))
		return 0;
	if (!weir_tcp_complete(params, flow, packet->tcp_ack))
		return 0;
	flow->state &= (u16)~WEIR_HALF_DONE;
	flow->marker = end;
	return 1;
}

/* Counts a forward packet in. */
WEIR_INLINE void weir_law_count(struct weir_flow *flow, const struct weir_packet *packet)
{
	flow->cycle_packets++;
	flow->packets++;
	flow->bytes += packet->payload_bytes;
}

/* A packet of the direction that goes through the bottleneck's queue, before it is queued. */
WEIR_INLINE void weir_law_forward(const struct weir_law_params *params, struct weir_flow *flow,
				  const struct weir_packet *packet, u64 now, struct weir_outcome *out)
{
	u32 bytes = packet->payload_bytes;
	u32 ignored = 0, by_verdict = 1, edge;

	*out = (struct weir_outcome){ .cycle = 0 };
	if (!weir_law_sees(params, packet) || weir_law_skips(params, packet)) {
		out->cycle = flow->cycle;
		return;
	}
	weir_law_turn(flow, packet);
	out->reset = (u8)weir_open(params, flow, packet, 0);
	if (!(flow->state & WEIR_SEEN_FORWARD))
		flow->cycle_started = now;
	if (packet->kind == WEIR_TCP) {
		/* The prototype makes the flow's entry on the first packet and, unless an ACK was there before, the ACK's on
		 * the second; neither is counted. */
		if (!params->first_bytes_count) {
			if (!(flow->state & WEIR_SEEN_FORWARD)) {
				ignored = 1;
			} else if (!(flow->state & WEIR_HAS_ACK)) {
				flow->state |= WEIR_HAS_ACK;
				flow->highest_ack = 0;
				flow->second_marker = 0;
				ignored = 2;
			}
		}
		edge = ignored == 2 ? 0 : weir_tcp_edge(params, flow, packet);
	} else {
		if (params->udp_bytes_from_frame) {
			u32 frame = packet->ip_bytes + (packet->l3_offset > 14 ? packet->l3_offset : 14);

			bytes = frame > 42 ? frame - 42 : 0;
		}
		if ((packet->quic_flags & WEIR_QUIC_LONG) && !params->long_header_counts) {
			bytes = packet->quic_short_bytes;
			by_verdict = 0;
		}
		edge = weir_spin_edge(params, flow, packet);
	}
	flow->state |= WEIR_SEEN_FORWARD;
	if (edge)
		weir_end_cycle(params, flow, now, out);
	if (!ignored)
		flow->window[0] = weir_add_bytes(params, flow->window[0], bytes);
	weir_law_count(flow, packet);
	if (params->count_arriving_ce && packet->ecn == 3)
		weir_law_signal(params, flow, WEIR_MARK, flow->cycle, 1);
	out->cycle = flow->cycle;
	out->choice = by_verdict ? weir_law_choice(params, flow) : WEIR_STANDARD_QUEUE;
}

/* A packet of the other direction. Returns 1 where it opened a new connection on a used entry. */
WEIR_INLINE u32 weir_law_reverse(const struct weir_law_params *params, struct weir_flow *flow,
				 const struct weir_packet *packet)
{
	u32 reset, evidence, end;

	if (packet->kind != WEIR_TCP && packet->kind != WEIR_QUIC)
		return 0;
	weir_law_turn(flow, packet);
	reset = weir_open(params, flow, packet, 1);
	if (packet->kind != WEIR_TCP)
		return reset;
	evidence = packet->tcp_ack;
	end = packet->tcp_seq + packet->payload_bytes;
	if (params->modular_sequence && !(packet->tcp_flags & WEIR_ACK))
		return reset;
	if (params->sack_completes_half && (packet->tcp_options & WEIR_HAS_SACK) &&
	    (s32)(packet->sack_right - evidence) > 0)
		evidence = packet->sack_right;
	/* Data that did not pass here cannot have been acknowledged: a receiver that says so shortens the cycle. */
	if (params->ignore_optimistic_acks &&
	    (!(flow->state & WEIR_HAS_EDGE) || (s32)(evidence - flow->right_edge) > 0))
		return reset;
	if (!(flow->state & WEIR_HAS_ACK)) {
		flow->state |= WEIR_HAS_ACK;
		flow->highest_ack = evidence;
		flow->second_marker = end;
		if (!params->second_marker_on_match)
			return reset;
	} else if (weir_reached(params, evidence, flow->highest_ack) ||
		   weir_wrapped(params, evidence, flow->highest_ack)) {
		flow->highest_ack = evidence;
	}
	if (!(flow->state & WEIR_HALF_DONE)) {
		u32 matches = (flow->state & WEIR_HAS_MARKER) && (weir_reached(params, flow->highest_ack, flow->marker) ||
								 weir_wrapped(params, flow->highest_ack, flow->marker));

		if (!params->second_marker_on_match || matches) {
			flow->state |= WEIR_HALF_DONE;
			flow->second_marker = end;
		}
	}
	return reset;
}

#endif /* WEIR_LAW_H */
