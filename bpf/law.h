/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The responsiveness law: SpinTrap for QUIC and TCPTrap for TCP (Kunze et al., "Congestion-Responsive Queuing for
 * Internet Flows", NOMS 2025, section III). It cuts a flow into cycles of one round trip, counts the payload bytes of
 * each (its window), books the losses and CE marks that the bottleneck put on the flow, and two cycles after a signal
 * asks whether the window has shrunk. The majority of these votes decides which of two queues the flow has earned.
 *
 * Pure state machines: packets and time are passed in, decisions handed back. Every point where the paper and its
 * public prototype differ is one field of struct weir_law_params; docs/reference/law.md lists them.
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

/* Whether a packet of a flow without an entry gets one. In the reverse direction the prototype looks at IPv4 TCP only,
 * but there it follows the headers properly. */
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
 * Law number `law` goes on with the flow. If that was kept by another, verdicts and votes stay, and what the connection
 * has shown of itself. But what was counted towards the next judgements was counted by other rules and maybe in other
 * registers: cycles begin anew, as for a flow that is met midway.
 */
WEIR_INLINE void weir_take_over(struct weir_flow *flow, u32 law)
{
	if (flow->law == law)
		return;
	flow->law = (u8)law;
	weir_begin_anew(flow);
}

/* Prepares the fields that transports share for this packet's. They change hands only where the key has no protocol. */
WEIR_INLINE void weir_law_turn(struct weir_flow *flow, const struct weir_packet *packet)
{
	if (packet->kind == WEIR_UDP || packet->kind == flow->kind)
		return;
	flow->kind = packet->kind;
	flow->state &= WEIR_SEEN_FORWARD | WEIR_SEEN_INITIAL | WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE | WEIR_IS_ECT;
	flow->marker = 0;
	flow->right_edge = 0;
	flow->highest_ack = 0;
	flow->second_marker = 0;
	flow->isn = 0;
	flow->syn = 0;
}

/* Notes an opening of a connection from one direction, which says nothing until the other one answers it: an outsider
 * can forge the one, and cannot make the other. */
WEIR_INLINE void weir_note_opening(struct weir_flow *flow, u32 reverse)
{
	flow->state &= (u16)~WEIR_OPENING_REVERSE;
	flow->state |= WEIR_OPENING | (reverse ? WEIR_OPENING_REVERSE : 0);
}

/* Whether an opening waits for an answer from this direction. */
WEIR_INLINE u32 weir_is_answer(const struct weir_flow *flow, u32 reverse)
{
	return (flow->state & (WEIR_OPENING | WEIR_OPENING_REVERSE)) ==
	       (reverse ? WEIR_OPENING : WEIR_OPENING | WEIR_OPENING_REVERSE);
}

/* A SYN, or the SYN-ACK that acknowledges one and so opens the connection (RFC 9293 section 3.5). */
WEIR_INLINE u32 weir_open_tcp(const struct weir_law_params *params, struct weir_flow *flow,
			      const struct weir_packet *packet,
			      u32 reverse)
{
	u32 syn = flow->syn, used = (flow->state & WEIR_HAS_MARKER) != 0;

	if (!(packet->tcp_flags & WEIR_ACK)) {
		flow->syn = packet->tcp_seq;
		weir_note_opening(flow, reverse);
		return 0;
	}
	if (!weir_is_answer(flow, reverse) || packet->tcp_ack != syn + 1)
		return 0;
	flow->state &= (u16) ~(WEIR_OPENING | WEIR_OPENING_REVERSE);
	/* A segment of the handshake that came twice opens nothing anew. */
	if ((flow->state & WEIR_HAS_ISN) && flow->isn == syn)
		return 0;
	used &= params->reset_on_open;
	if (used) {
		weir_reopen(flow);
		if (reverse) {
			flow->right_edge = syn + 1;
			flow->state |= WEIR_HAS_EDGE;
		}
	}
	flow->isn = syn;
	flow->state |= WEIR_HAS_ISN;
	return used;
}

/* Recognises the opening of a connection in either direction; returns 1 where it reset a used entry. */
WEIR_INLINE u32 weir_open(const struct weir_law_params *params, struct weir_flow *flow,
			  const struct weir_packet *packet,
			  u32 reverse)
{
	u32 reset = 0;

	if (packet->kind == WEIR_TCP && (packet->tcp_flags & WEIR_SYN))
		return weir_open_tcp(params, flow, packet, reverse);
	if (packet->kind == WEIR_QUIC && (packet->quic_flags & WEIR_QUIC_INITIAL)) {
		/* Initials end where both ends have sent short headers; a late one within the handshake resets nothing. */
		u16 both = WEIR_SHORT_FORWARD | WEIR_SHORT_REVERSE;

		if (params->reset_on_open &&
		    ((flow->state & both) == both || flow->cycle - flow->first_cycle >= 2)) {
			if (weir_is_answer(flow, reverse)) {
				weir_reopen(flow);
				reset = 1;
			} else {
				weir_note_opening(flow, reverse);
			}
		}
		flow->state |= WEIR_SEEN_INITIAL;
	}
	if (packet->kind == WEIR_QUIC && (packet->quic_flags & WEIR_QUIC_SHORT))
		flow->state |= reverse ? WEIR_SHORT_REVERSE : WEIR_SHORT_FORWARD;
	return reset;
}

/* Whether the packet shows its flow's spin bit: what has no fixed bit is QUIC if the flow is. */
WEIR_INLINE u32 weir_is_spun(const struct weir_flow *flow, const struct weir_packet *packet)
{
	return (packet->quic_flags & WEIR_QUIC_SHORT) && flow->kind == WEIR_QUIC;
}

/* Whether the other direction bears an edge out: its bit turns once between any two of this one's (RFC 9000 section
 * 17.4). */
WEIR_INLINE u32 weir_spin_turned(const struct weir_law_params *params, struct weir_flow *flow)
{
	if (params->spin_needs_reverse && !(flow->state & WEIR_REVERSE_SPUN))
		return 0;
	flow->state &= (u16)~WEIR_REVERSE_SPUN;
	return 1;
}

/* SpinTrap: whether this packet shows an edge of the spin bit. */
WEIR_INLINE u32 weir_spin_edge(const struct weir_law_params *params, struct weir_flow *flow,
			       const struct weir_packet *packet, u64 now)
{
	u32 spin = (packet->quic_flags & WEIR_QUIC_SPIN) != 0;
	u32 debounce = params->spin_debounce < 1 ? 1 : params->spin_debounce > 16 ? 16 : params->spin_debounce;
	u32 edge;

	if (!weir_is_spun(flow, packet) || (params->quic_needs_initial && !(flow->state & WEIR_SEEN_INITIAL)))
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
		if (flow->spin_run < debounce)
			flow->spin_run++;
		if (flow->spin_run < debounce || weir_is_too_short(params, flow, now) || !weir_spin_turned(params, flow))
			return 0;
		flow->spin = (u8)spin;
		flow->spin_run = 0;
		return 1;
	}
	edge = (((flow->spin_register + spin) ^ (1u << (debounce - 1))) & ((1u << debounce) - 1)) == 0;
	flow->spin_register = flow->spin_register << 1 | spin;
	return edge && !weir_is_too_short(params, flow, now) && weir_spin_turned(params, flow);
}

/*
 * TCPTrap: whether a packet completes the second half if there is one to complete. Where both directions have timestamps
 * (RFC 7323), it does if it echoes one that is not older than the newest that went by when the first half was complete:
 * then the packet was sent after that had arrived, whether the other direction has data or not.
 */
WEIR_INLINE u32 weir_tcp_answers(const struct weir_law_params *params, const struct weir_flow *flow,
				 const struct weir_packet *packet)
{
	if (params->timestamp_cycles && (flow->state & WEIR_IS_STAMP))
		return (packet->tcp_options & WEIR_HAS_TS) && (s32)(packet->tsecr - flow->second_marker) >= 0;
	return weir_reached(params, packet->tcp_ack, flow->second_marker);
}

/* TCPTrap: whether both halves of the cycle are complete, the second by this forward packet. */
WEIR_INLINE u32 weir_tcp_complete(const struct weir_law_params *params, const struct weir_flow *flow,
				  const struct weir_packet *packet)
{
	u32 first = weir_reached(params, flow->highest_ack, flow->marker);
	u32 second = (flow->state & WEIR_HALF_DONE) != 0 && weir_tcp_answers(params, flow, packet);

	if (params->full_cycles)
		return (first || weir_wrapped(params, flow->highest_ack, flow->marker)) && second;
	/* as C's precedence reads `first || wrapped && second` */
	return first || (weir_wrapped(params, flow->highest_ack, flow->marker) && second);
}

/* TCPTrap: makes a forward packet the marker. */
WEIR_INLINE void weir_mark(const struct weir_law_params *params, struct weir_flow *flow,
			   const struct weir_packet *packet, u32 end)
{
	flow->marker = end;
	/* Without a branch, which would take more of the kernel's stack than there is. */
	_Static_assert(WEIR_HAS_TS == 1 && WEIR_MARKER_STAMPED == 1 << 5, "one bit in both");
	flow->state |= (u16)((params->timestamp_cycles & packet->tcp_options & WEIR_HAS_TS) << 5);
}

/* TCPTrap: whether this forward packet ends the cycle, and if so, or if there is none yet, makes it the next marker. */
WEIR_INLINE u32 weir_tcp_edge(const struct weir_law_params *params, struct weir_flow *flow,
			      const struct weir_packet *packet, u64 now)
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
		weir_mark(params, flow, packet, end);
		return 0;
	}
	if (!(flow->state & WEIR_HAS_ACK))
		return 0;
	if (!weir_tcp_complete(params, flow, packet) || weir_is_too_short(params, flow, now))
		return 0;
	flow->state &= (u16)~WEIR_HALF_DONE;
	weir_mark(params, flow, packet, end);
	return 1;
}

/*
 * TCPTrap: whether a forward segment goes on from what its flow has in flight, give or take WEIR_SEQUENCE_SLACK.
 * Whatever comes first makes the edges. They are borne out once an acknowledgement has met them (WEIR_HAS_ACK), and
 * stand from then on: nothing from elsewhere moves them. Edges that nothing bears out and something contradicts are
 * dropped at the next look, those that were borne out wrongly when the flow's cycles begin anew (weir_law_look): who
 * forges has to come first each time, and no state is for ever.
 */
WEIR_INLINE u32 weir_tcp_fits(const struct weir_law_params *params, struct weir_flow *flow,
			      const struct weir_packet *packet)
{
	u32 low, flight;

	if (!params->plausible_sequence || !(flow->state & WEIR_HAS_EDGE))
		return 1;
	low = flow->state & WEIR_HAS_ACK ? flow->highest_ack : flow->state & WEIR_HAS_MARKER ? flow->marker : flow->right_edge;
	/* An ACK of data that was not seen may be ahead of the edge. */
	flight = flow->right_edge - low + WEIR_SEQUENCE_SLACK;
	if (packet->tcp_seq - low + WEIR_SEQUENCE_SLACK <= flight + WEIR_SEQUENCE_SLACK && flight <= WEIR_MAX_FLIGHT)
		return 1;
	if (!(flow->state & WEIR_HAS_ACK))
		flow->state |= WEIR_DOUBTED;
	return 0;
}

/* TCPTrap: whether an acknowledgement is of data that can be in flight. The first one that counts is of data that
 * passed here. */
WEIR_INLINE u32 weir_ack_fits(const struct weir_law_params *params, const struct weir_flow *flow, u32 ack)
{
	u32 low, beyond = params->ignore_optimistic_acks ? 0 : WEIR_SEQUENCE_SLACK;

	if (!params->plausible_sequence)
		return 1;
	if (!(flow->state & WEIR_HAS_EDGE))
		return 0;
	if (flow->state & WEIR_HAS_ACK)
		low = flow->highest_ack - WEIR_SEQUENCE_SLACK;
	else
		low = flow->state & WEIR_HAS_MARKER ? flow->marker : flow->right_edge;
	return ack - low <= flow->right_edge - low + beyond;
}

/* TCPTrap: whether what an acknowledgement says arrived counts. */
WEIR_INLINE u32 weir_ack_counts(const struct weir_law_params *params, const struct weir_flow *flow, u32 ack)
{
	if (!weir_ack_fits(params, flow, ack))
		return 0;
	/* Data that did not pass here cannot have been acknowledged: a receiver that says so shortens the cycle. */
	return !params->ignore_optimistic_acks ||
	       ((flow->state & WEIR_HAS_EDGE) && (s32)(ack - flow->right_edge) <= 0);
}

/*
 * A forward packet of a flow whose activity has lasted for another round trip: after some without the end of a cycle
 * the flow's verdict lapses, and its cycles begin anew, with nothing believed of the length of its round trip. A pause
 * counts as one, however long it is.
 */
WEIR_INLINE void weir_law_look(const struct weir_law_params *params, struct weir_flow *flow, u64 now,
			       struct weir_outcome *out)
{
	u32 looks = flow->looks + 1u;

	if (looks < params->lapse_round_trips) {
		if ((flow->state & (WEIR_DOUBTED | WEIR_HAS_ACK)) == WEIR_DOUBTED)
			flow->state &= (u16) ~(WEIR_DOUBTED | WEIR_HAS_EDGE | WEIR_HAS_MARKER | WEIR_HALF_DONE);
		flow->looks = (u8)looks;
		flow->next_look = (u32)(now >> WEIR_TICK_SHIFT) + weir_look_after(flow);
		return;
	}
	if (params->verdict_lapses) {
		out->lapsed = (flow->verdict[WEIR_LOSS] | flow->verdict[WEIR_MARK]) != 0;
		flow->verdict[WEIR_LOSS] = WEIR_UNCLASSIFIED;
		flow->verdict[WEIR_MARK] = WEIR_UNCLASSIFIED;
		flow->votes[WEIR_LOSS][0] = 0;
		flow->votes[WEIR_LOSS][1] = 0;
		flow->votes[WEIR_MARK][0] = 0;
		flow->votes[WEIR_MARK][1] = 0;
		flow->conduct = (struct weir_conduct){ .cycles = 0 };
	}
	weir_begin_anew(flow);
	flow->last_rtt = 0;
	weir_watch(flow, now);
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
	if (packet->ecn)
		flow->state |= WEIR_IS_ECT;
	if (params->lapse_round_trips && (flow->state & WEIR_SEEN_FORWARD) &&
	    (s32)((u32)(now >> WEIR_TICK_SHIFT) - flow->next_look) >= 0)
		weir_law_look(params, flow, now, out);
	if (!(flow->state & WEIR_SEEN_FORWARD)) {
		flow->cycle_started = now;
		weir_watch(flow, now);
	}
	if (packet->kind == WEIR_TCP) {
		/* Neither counted nor favoured, and no signal on it is the flow's. */
		if (!weir_tcp_fits(params, flow, packet)) {
			out->cycle = flow->cycle - WEIR_UNBOOKED;
			return;
		}
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
		edge = ignored == 2 ? 0 : weir_tcp_edge(params, flow, packet, now);
	} else {
		if (params->udp_bytes_from_frame) {
			u32 frame = packet->ip_bytes + (packet->l3_offset > 14 ? packet->l3_offset : 14);

			bytes = frame > 42 ? frame - 42 : 0;
		}
		if ((packet->quic_flags & WEIR_QUIC_LONG) && !params->long_header_counts) {
			bytes = packet->quic_short_bytes;
			by_verdict = 0;
		}
		edge = weir_spin_edge(params, flow, packet, now);
	}
	flow->state |= WEIR_SEEN_FORWARD;
	if (edge) {
		now = WEIR_EXACT_NOW(now);
		weir_end_cycle(params, flow, now, out);
		weir_watch(flow, now);
	}
	if (!ignored)
		flow->window[0] = weir_add_bytes(params, flow->window[0], bytes);
	weir_law_count(flow, packet);
	if (params->count_arriving_ce && packet->ecn == 3)
		weir_law_signal(params, flow, WEIR_MARK, flow->cycle, 1);
	out->cycle = flow->cycle;
	out->choice = by_verdict ? weir_law_choice(params, flow) : WEIR_STANDARD_QUEUE;
}

/*
 * TCPTrap: notes how far the other direction is: by its timestamps once both have shown some, until then by its data.
 * What is older than the newest is never waited for, so that no old number takes the second half away. Returns 0 for a
 * packet without what its flow has shown, by which no half is complete.
 */
WEIR_INLINE u32 weir_note_newest(struct weir_flow *flow, const struct weir_packet *packet)
{
	u32 stamped = (packet->tcp_options & WEIR_HAS_TS) && (flow->state & WEIR_MARKER_STAMPED);
	u32 value = packet->tcp_seq + packet->payload_bytes;

	if (stamped && !(flow->state & (WEIR_IS_STAMP | WEIR_HALF_DONE))) {
		flow->state |= WEIR_IS_STAMP;
		flow->state &= (u16)~WEIR_HAS_NEWEST;
	}
	if (flow->state & WEIR_IS_STAMP) {
		if (!stamped)
			return 0;
		value = packet->tsval;
	}
	if (!(flow->state & WEIR_HAS_NEWEST) || (s32)(value - flow->newest) > 0)
		flow->newest = value;
	flow->state |= WEIR_HAS_NEWEST;
	return 1;
}

/* TCPTrap: what completes the second half, whose first is complete with a packet whose data end at `end`. */
WEIR_INLINE u32 weir_second_marker(const struct weir_law_params *params, const struct weir_flow *flow, u32 end)
{
	if (!params->timestamp_cycles)
		return end;
	if ((flow->state & WEIR_IS_STAMP) && flow->last_rtt && flow->last_rtt < WEIR_FEW_TICKS)
		return flow->newest + 1;
	return flow->newest;
}

/* A packet of the other direction. Returns 1 where it opened a new connection on a used entry. */
WEIR_INLINE u32 weir_law_reverse(const struct weir_law_params *params, struct weir_flow *flow,
				 const struct weir_packet *packet)
{
	u32 reset, evidence, end, sacked, tells;

	if (packet->kind < WEIR_TCP || packet->kind > WEIR_QUIC)
		return 0;
	weir_law_turn(flow, packet);
	reset = weir_open(params, flow, packet, 1);
	if (packet->kind != WEIR_TCP) {
		u32 turned = !(packet->quic_flags & WEIR_QUIC_SPIN) != !(flow->state & WEIR_REVERSE_SPIN);

		if (turned && weir_is_spun(flow, packet)) {
			flow->state ^= WEIR_REVERSE_SPIN;
			flow->state |= WEIR_REVERSE_SPUN;
		}
		return reset;
	}
	evidence = packet->tcp_ack;
	end = packet->tcp_seq + packet->payload_bytes;
	if (params->modular_sequence && !(packet->tcp_flags & WEIR_ACK))
		return reset;
	sacked = params->sack_completes_half && (packet->tcp_options & WEIR_HAS_SACK) &&
		 (s32)(packet->sack_right - evidence) > 0;
	if (sacked && !(flow->state & WEIR_HAS_ACK))
		evidence = packet->sack_right;
	if (!weir_ack_counts(params, flow, evidence))
		return reset;
	tells = params->timestamp_cycles ? weir_note_newest(flow, packet) : 1;
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
	/* What lies beyond a hole has arrived as well, be it the marker or what came after it. The edge of what is in flight
	 * stays at the hole, which has to be repaired yet: it is the marker that has no further to go. */
	if (sacked && (flow->state & WEIR_HAS_MARKER) && !(params->second_marker_on_match && (flow->state & WEIR_HALF_DONE)) &&
	    weir_ack_counts(params, flow, packet->sack_right) &&
	    weir_reached(params, packet->sack_right, flow->marker))
		flow->marker = flow->highest_ack;
	if (!(flow->state & WEIR_HALF_DONE) && tells) {
		u32 matches = (flow->state & WEIR_HAS_MARKER) && (weir_reached(params, flow->highest_ack, flow->marker) ||
								 weir_wrapped(params, flow->highest_ack, flow->marker));

		if (!params->second_marker_on_match || matches) {
			flow->state |= WEIR_HALF_DONE;
			flow->second_marker = weir_second_marker(params, flow, end);
		}
	}
	return reset;
}

#endif /* WEIR_LAW_H */
