/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QUIC by what all its versions have in common (RFC 8999), the spin bit (RFC 9000 section 17.4), and coalesced packets
 * of versions 1 and 2 (RFC 9000 section 12.2, RFC 9369), whose last may be a short one.
 */
#ifndef WEIR_QUIC_H
#define WEIR_QUIC_H

#include "packet_state.h"

/* Reads a QUIC variable-length integer (RFC 9000 section 16). Returns its length in bytes, or 0 where it is cut short
 * or too large to be a length inside a datagram. */
WEIR_INLINE u32 weir_quic_varint(const u8 *data, const u8 *end, u32 offset, u32 *value)
{
	const u8 *at = weir_at(data, end, offset, 1);
	u8 first;

	if (!at)
		return 0;
	first = at[0];
	if (first < 0x40) {
		*value = first;
		return 1;
	}
	if (first < 0x80) {
		at = weir_at(data, end, offset, 2);
		if (!at)
			return 0;
		*value = (u32)weir_be16(at) & 0x3fff;
		return 2;
	}
	if (first < 0xc0) {
		at = weir_at(data, end, offset, 4);
		if (!at)
			return 0;
		*value = weir_be32(at) & 0x3fffffff;
		return *value > 0xffff ? 0 : 4;
	}
	at = weir_at(data, end, offset, 8);
	if (!at || weir_be32(at) != 0xc0000000)
		return 0;
	*value = weir_be32(at + 4);
	return *value > 0xffff ? 0 : 8;
}

/*
 * Whether a datagram opens with a short header: it has the fixed bit, or an end greases that (RFC 9287), which only its
 * flow can tell (weir_is_spun). The lowest numbers are STUN's, which shares QUIC's ports (RFC 9443).
 */
WEIR_INLINE u32 weir_is_short(u8 first)
{
	return first >= 4 && first < 0x80;
}

WEIR_INLINE void weir_quic_short(struct weir_packet *out, u8 first, u32 bytes)
{
	out->quic_flags |= WEIR_QUIC_SHORT;
	if (first & 0x20)
		out->quic_flags |= WEIR_QUIC_SPIN;
	out->quic_first = first;
	out->quic_short_bytes = bytes;
}

/* Walks one long header at `*offset`, moves past its packet and returns 1, or returns 0 where the walk has to stop: an
 * unknown version hides its lengths, Retry and Version Negotiation fill their datagram. */
WEIR_INLINE int weir_quic_long(const u8 *data, const u8 *end, u32 *offset, u32 datagram_end, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, *offset, 6);
	u32 version, next, length = 0, read;
	u8 type;

	if (!at)
		return 0;
	version = weir_be32(at + 1);
	type = (at[0] >> 4) & 3;
	if (version == 0x6b3343cf) /* QUIC v2, RFC 9369: types are turned by one */
		type = (type + 3) & 3;
	else if (version != 1)
		return 0;
	if (type == 0)
		out->quic_flags |= WEIR_QUIC_INITIAL;
	if (type == 3 || at[5] > 20) /* Retry; connection IDs have at most 20 bytes */
		return 0;
	next = *offset + 6 + at[5];
	at = weir_at(data, end, next, 1);
	if (!at || at[0] > 20)
		return 0;
	next += 1 + (u32)at[0];
	if (type == 0) {
		read = weir_quic_varint(data, end, next, &length);
		if (!read)
			return 0;
		next += read + length;
	}
	read = weir_quic_varint(data, end, next, &length);
	if (!read)
		return 0;
	next += read + length;
	if (next >= datagram_end || next > WEIR_MAX_OFFSET)
		return 0;
	*offset = next;
	return 1;
}

WEIR_INLINE void weir_parse_quic(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	u32 datagram_end = offset + out->payload_bytes;
	const u8 *at;
	int i;

	if (!out->payload_bytes)
		return;
	at = weir_at(data, end, offset, 1);
	if (!at)
		return;
	if (!(at[0] & 0x40)) {
		if (weir_is_short(at[0]))
			weir_quic_short(out, at[0], out->payload_bytes);
		return;
	}
	out->kind = WEIR_QUIC;
	for (i = 0; i < WEIR_MAX_QUIC_PACKETS; i++) {
		offset = weir_forget(offset, out);
		at = weir_at(data, end, offset, 1);
		if (!at || !(at[0] & 0x40))
			return;
		if (!(at[0] & 0x80)) {
			weir_quic_short(out, at[0], datagram_end - offset);
			return;
		}
		out->quic_flags |= WEIR_QUIC_LONG;
		if (!weir_quic_long(data, end, &offset, datagram_end, out))
			return;
	}
}

#endif /* WEIR_QUIC_H */
