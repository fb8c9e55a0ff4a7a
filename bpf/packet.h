/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the headers of one frame: Ethernet with up to two VLAN tags and PPPoE, or bare IP; IPv4 and IPv6; TCP, UDP and
 * the version-independent part of QUIC (RFC 8999) with the spin bit (RFC 9000 section 17.4).
 *
 * Plain integer C without helpers or libc, compiled for the kernel's eBPF machine and natively from the same lines.
 * A header that is cut short gives WEIR_TRUNCATED; lengths that contradict each other give WEIR_MALFORMED. Lengths come
 * from the IP header, not from the bytes at hand, so that frames cut by a capture's snap length count in full. But no
 * more is believed than the frame has on the wire.
 */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#include "quic.h"

WEIR_INLINE void weir_parse_sack(const u8 *data, const u8 *end, u32 offset, u32 length, struct weir_packet *out)
{
	u32 i;

	for (i = 0; i < WEIR_MAX_SACK_BLOCKS; i++) {
		const u8 *at;
		u32 right;

		if (2 + 8 * (i + 1) > length)
			return;
		at = weir_at(data, end, offset + 2 + 8 * i, 8);
		if (!at)
			return;
		right = weir_be32(at + 4);
		if (!(out->tcp_options & WEIR_HAS_SACK) ||
		    (s32)(right - out->tcp_ack) > (s32)(out->sack_right - out->tcp_ack)) {
			out->sack_right = right;
			out->tcp_options |= WEIR_HAS_SACK;
		}
	}
}

/* Bytes on the wire from `offset` on: what a super-packet of 64 kB or more (BIG TCP) has instead of a length, and the
 * most that any has. */
WEIR_INLINE u32 weir_rest(const struct weir_packet *out, u32 offset)
{
	return out->frame_bytes > offset ? out->frame_bytes - offset : 0;
}

/* Payload that begins at `offset` and that the IP header says is longer than the frame is as long as that. */
WEIR_INLINE void weir_believe(struct weir_packet *out, u32 offset)
{
	u32 rest = weir_rest(out, offset);

	if (out->payload_bytes > rest)
		out->payload_bytes = rest;
}

/* Timestamps (RFC 7323), the first if there are more, and SACK (RFC 2018); an option that runs past the header ends the
 * list. */
WEIR_INLINE void weir_parse_tcp_options(const u8 *data, const u8 *end, u32 offset, u32 limit, struct weir_packet *out)
{
	const u8 *at;
	int i;

	/* What nearly every segment has. */
	at = offset + 12 == limit ? weir_at(data, end, offset, 12) : 0;
	if (at && WEIR_LOAD(u32, at) == WEIR_STAMPS_FIRST) {
		out->tsval = weir_be32(at + 4);
		out->tsecr = weir_be32(at + 8);
		out->tcp_options |= WEIR_HAS_TS;
		return;
	}
	for (i = 0; i < WEIR_MAX_TCP_OPTIONS; i++) {
		u32 length;
		u8 option;

		if (offset >= limit)
			return;
		offset = weir_forget(offset, out);
		at = weir_at(data, end, offset, 1);
		if (!at || at[0] == 0)
			return;
		option = at[0];
		if (option == 1) {
			offset++;
			continue;
		}
		at = weir_at(data, end, offset, 2);
		if (!at)
			return;
		length = at[1];
		if (length < 2 || offset + length > limit)
			return;
		if (option == 8 && length == 10 && !(out->tcp_options & WEIR_HAS_TS)) {
			at = weir_at(data, end, offset, 10);
			if (!at)
				return;
			out->tsval = weir_be32(at + 2);
			out->tsecr = weir_be32(at + 6);
			out->tcp_options |= WEIR_HAS_TS;
		} else if (option == 5) {
			weir_parse_sack(data, end, offset, length, out);
		}
		offset += length;
	}
}

/* The fixed part of a TCP header of `header` octets. The kind is left to the caller: the verifier would carry it
 * through the options. */
WEIR_INLINE void weir_read_tcp(const u8 *at, u32 header, u32 l4_bytes, struct weir_packet *out)
{
	out->src_port = weir_be16(at);
	out->dst_port = weir_be16(at + 2);
	out->tcp_seq = weir_be32(at + 4);
	out->tcp_ack = weir_be32(at + 8);
	out->tcp_flags = at[13];
	out->tcp_window = weir_be16(at + 14);
	out->payload_bytes = l4_bytes - header;
}

WEIR_INLINE void weir_parse_tcp(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	const u8 *at;
	u32 header;

	if (l4_bytes < 20) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	at = weir_at(data, end, offset, 20);
	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return;
	}
	header = (u32)(at[12] >> 4) * 4;
	if (header < 20 || header > l4_bytes) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	weir_read_tcp(at, header, l4_bytes, out);
	weir_believe(out, offset + header);
	/* Options cut by a snap length lose timestamps and SACK, not the segment. */
	if (WEIR_READ_TCP_OPTIONS)
		weir_parse_tcp_options(data, end, offset + 20, offset + header, out);
	out->kind = WEIR_TCP;
}

WEIR_INLINE void weir_read_udp(const u8 *at, u32 l4_bytes, struct weir_packet *out)
{
	out->src_port = weir_be16(at);
	out->dst_port = weir_be16(at + 2);
	out->payload_bytes = l4_bytes - 8;
	out->kind = WEIR_UDP;
}

WEIR_INLINE void weir_parse_udp(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	const u8 *at;
	u32 length;

	if (l4_bytes < 8) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	at = weir_at(data, end, offset, 8);
	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return;
	}
	length = weir_be16(at + 4);
	if (length && length < 8) { /* zero stands for a jumbogram (RFC 2675 section 4) */
		out->kind = WEIR_MALFORMED;
		return;
	}
	weir_read_udp(at, l4_bytes, out);
	weir_believe(out, offset + 8);
	weir_parse_quic(data, end, offset + 8, out);
}

WEIR_INLINE void weir_parse_transport(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	offset = weir_forget(offset, out);
	out->l4_offset = (u16)offset;
	if (out->protocol == 6)
		weir_parse_tcp(data, end, offset, l4_bytes, out);
	else if (out->protocol == 17)
		weir_parse_udp(data, end, offset, l4_bytes, out);
	else
		out->kind = WEIR_OTHER;
}

/* The last eight octets of an IPv4 address as IPv6 writes it, in the order of the wire. */
WEIR_INLINE u64 weir_mapped(const u8 *at)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (u64)WEIR_LOAD(u32, at) << 32 | 0xffff0000u;
#else
	return 0xffff00000000ull | WEIR_LOAD(u32, at);
#endif
}

/* What all IPv4 headers have. Addresses as whole words, which the key takes again: what is put together from parts has
 * to reach the cache before it can be read at once. */
WEIR_INLINE void weir_read_ipv4(const u8 *at, u32 offset, struct weir_packet *out)
{
	out->ip_version = 4;
	out->l3_offset = (u16)offset;
	out->ecn_offset = (u16)(offset + 1);
	out->ecn = at[1] & 3;
	out->protocol = at[9];
	out->src_words[1] = weir_mapped(at + 12);
	out->dst_words[1] = weir_mapped(at + 16);
	out->ip_bytes = weir_be16(at + 2);
}

/* Returns where the transport header begins, or 0 where there is none to read and `kind` says why. */
WEIR_INLINE u32 weir_parse_ipv4(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, offset, 20);
	u32 header, fragment;

	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return 0;
	}
	header = (u32)(at[0] & 0x0f) * 4;
	if (at[0] >> 4 != 4 || header < 20) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	weir_read_ipv4(at, offset, out);
	if (!out->ip_bytes)
		out->ip_bytes = weir_rest(out, offset);
	if (out->ip_bytes < header) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	if (header > 20)
		out->layers |= WEIR_IP_OPTIONS;
	fragment = weir_be16(at + 6);
	if (fragment & 0x1fff) {
		out->kind = WEIR_FRAGMENT;
		return 0;
	}
	if (fragment & 0x2000)
		out->layers |= WEIR_FIRST_FRAGMENT;
	return offset + header;
}

/* The header itself but for its length; `protocol` is what comes next, be it an extension. */
WEIR_INLINE void weir_read_ipv6(const u8 *at, u32 offset, struct weir_packet *out)
{
	out->ip_version = 6;
	out->l3_offset = (u16)offset;
	out->ecn_offset = (u16)(offset + 1);
	out->ecn = (at[1] >> 4) & 3;
	out->protocol = at[6];
	out->src_words[0] = WEIR_LOAD(u64, at + 8);
	out->src_words[1] = WEIR_LOAD(u64, at + 16);
	out->dst_words[0] = WEIR_LOAD(u64, at + 24);
	out->dst_words[1] = WEIR_LOAD(u64, at + 32);
}

/* Hop-by-hop, routing, destination options and fragment headers (RFC 8200 section 4). */
WEIR_INLINE u32 weir_is_ipv6_extension(u32 type)
{
	return type == 0 || type == 43 || type == 60 || type == 44;
}

WEIR_INLINE u32 weir_parse_ipv6(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, offset, 40);
	u32 next = offset + 40, total;
	int i;

	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return 0;
	}
	if (at[0] >> 4 != 6) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	weir_read_ipv6(at, offset, out);
	total = weir_be16(at + 4);
	total = total ? total + 40 : weir_rest(out, offset); /* zero: jumbogram or BIG TCP */
	out->ip_bytes = total;
	if (total < 40) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	for (i = 0; i < WEIR_MAX_IPV6_HEADERS; i++) {
		u32 length = 8;
		u8 type = out->protocol;

		next = weir_forget(next, out);
		if (!weir_is_ipv6_extension(type))
			return next;
		out->layers |= WEIR_IP_OPTIONS;
		at = weir_at(data, end, next, 8);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return 0;
		}
		if (type == 44) {
			if (weir_be16(at + 2) & 0xfff8) {
				out->protocol = at[0];
				out->kind = WEIR_FRAGMENT;
				return 0;
			}
			if (at[3] & 1)
				out->layers |= WEIR_FIRST_FRAGMENT;
		} else {
			length = ((u32)at[1] + 1) * 8;
		}
		out->protocol = at[0];
		next += length;
		if (next - offset > total) {
			out->kind = WEIR_MALFORMED;
			return 0;
		}
	}
	out->kind = WEIR_OTHER;
	return 0;
}

/*
 * Reads the frame between `data` and `end`. `frame_bytes` is its length on the wire, which is more than what is at hand
 * where a capture cut it or a socket buffer is not linear. `start` says which header comes first. `out` is written
 * whole.
 */
WEIR_INLINE void weir_parse(const u8 *data, const u8 *end, u32 frame_bytes, u32 start, struct weir_packet *out)
{
	u32 offset = 0, transport = 0, type;
	const u8 *at;
	int i;

	*out = (struct weir_packet){ .frame_bytes = frame_bytes };
	if (start == WEIR_START_IP) {
		at = weir_at(data, end, 0, 1);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return;
		}
		type = at[0] >> 4 == 4 ? 0x0800 : at[0] >> 4 == 6 ? 0x86dd : 0;
	} else {
		at = weir_at(data, end, 0, 14);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return;
		}
		type = weir_be16(at + 12);
		offset = 14;
		/* 802.1Q, 802.1ad and the older QinQ type */
		for (i = 0; i < 2 && (type == 0x8100 || type == 0x88a8 || type == 0x9100); i++) {
			at = weir_at(data, end, offset, 4);
			if (!at) {
				out->kind = WEIR_TRUNCATED;
				return;
			}
			type = weir_be16(at + 2);
			offset += 4;
			out->layers |= WEIR_TAGGED;
		}
		if (type == 0x8864) { /* PPPoE session (RFC 2516): version and type 1, code 0, then the PPP protocol */
			at = weir_at(data, end, offset, 8);
			if (!at) {
				out->kind = WEIR_TRUNCATED;
				return;
			}
			type = 0;
			if (at[0] == 0x11 && at[1] == 0)
				type = weir_be16(at + 6) == 0x0021 ? 0x0800 : weir_be16(at + 6) == 0x0057 ? 0x86dd : 0;
			offset += 8;
			out->layers |= WEIR_TAGGED;
		}
	}
	offset = weir_forget(offset, out);
	if (type == 0x0800)
		transport = weir_parse_ipv4(data, end, offset, out);
	else if (type == 0x86dd)
		transport = weir_parse_ipv6(data, end, offset, out);
	if (transport)
		weir_parse_transport(data, end, transport, out->ip_bytes - (transport - offset), out);
	if (out->ip_bytes > weir_rest(out, offset))
		out->ip_bytes = weir_rest(out, offset);
}

#endif /* WEIR_PACKET_H */
