package oap

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Sizes of SPEC.md §1, §3 and §7, in bytes.
const (
	HeaderSize  = 38        // the fixed header
	MaxFrame    = 1 << 20   // the largest frame, header included
	MinMaxFrame = 128 << 10 // the lowest max_frame that HELLO may negotiate
	MaxCap      = 4 << 10   // the largest capability
)

// Version is the protocol version in every header.
const Version = 1

// Application protocols (SPEC.md §4), the app_proto_id of a header.
const (
	ProtoControl uint16 = 0
	ProtoObject  uint16 = 1
	ProtoIndex   uint16 = 2
	ProtoGossip  uint16 = 3 // reserved: gossip uses pubsub, and a frame with it is unknown_proto
	ProtoRepair  uint16 = 4
	ProtoLinks   uint16 = 5
)

// Flags are the flag bits of a header (SPEC.md §2).
type Flags uint16

// The flags. Exactly one of Req, Resp and Event is set, except in an ACK, which is Event|Resp.
const (
	FlagReq    Flags = 1 << iota // request
	FlagResp                     // response
	FlagEvent                    // one-way
	FlagStart                    // first frame of its corr_id in this direction
	FlagEnd                      // last frame of its corr_id in this direction
	FlagAckReq                   // the sender wants credit back (§6)
	FlagComp                     // the payload is zstd, see [Inflate]
	FlagAppE2E                   // end-to-end encrypted by the application

	// FlagsKnown is the set of all defined flags.
	FlagsKnown Flags = 1<<iota - 1
)

var flagNames = [...]string{"REQ", "RESP", "EVENT", "START", "END", "ACK_REQ", "COMP", "APP_E2E"}

// flagsKind is the set of flags that say what kind of frame it is.
const flagsKind = FlagReq | FlagResp | FlagEvent

// Has reports whether every bit of f2 is set.
func (f Flags) Has(f2 Flags) bool { return f&f2 == f2 }

// String returns the names of the flags, such as "REQ|START|END". Reserved bits are in hexadecimal.
func (f Flags) String() string {
	var names []string
	for i, name := range flagNames {
		if f.Has(1 << i) {
			names = append(names, name)
		}
	}
	if rest := f &^ FlagsKnown; rest != 0 || f == 0 {
		names = append(names, fmt.Sprintf("%#04x", uint16(rest)))
	}
	return strings.Join(names, "|")
}

// IsAck reports whether the frame is an ACK (SPEC.md §6).
func (f Flags) IsAck() bool { return f&flagsKind == FlagEvent|FlagResp }

// Header is the fixed header (SPEC.md §1).
type Header struct {
	Len    uint32 // bytes of the whole frame; set by the writer
	Ver    uint16 // Version; set by the writer
	Flags  Flags
	Code   uint16 // status of a response; in other frames the application defines it
	Proto  uint16 // app_proto_id, one of the Proto constants
	Tenant [16]byte
	CapLen uint16 // bytes of the capability; set by the writer
	CorrID uint64 // correlation id, unique among a stream's requests in flight
}

// Frame is one frame. Cap and Payload of a frame from a [Reader] alias the reader's buffer.
type Frame struct {
	Header
	Cap     []byte
	Payload []byte
}

// parse reads the fixed header from the first HeaderSize bytes of p.
func (h *Header) parse(p []byte) {
	_ = p[HeaderSize-1]
	h.Len = binary.BigEndian.Uint32(p)
	h.Ver = binary.BigEndian.Uint16(p[4:])
	h.Flags = Flags(binary.BigEndian.Uint16(p[6:]))
	h.Code = binary.BigEndian.Uint16(p[8:])
	h.Proto = binary.BigEndian.Uint16(p[10:])
	h.Tenant = [16]byte(p[12:28])
	h.CapLen = binary.BigEndian.Uint16(p[28:])
	h.CorrID = binary.BigEndian.Uint64(p[30:])
}

// put writes the fixed header to the first HeaderSize bytes of p.
func (h *Header) put(p []byte) {
	_ = p[HeaderSize-1]
	binary.BigEndian.PutUint32(p, h.Len)
	binary.BigEndian.PutUint16(p[4:], h.Ver)
	binary.BigEndian.PutUint16(p[6:], uint16(h.Flags))
	binary.BigEndian.PutUint16(p[8:], h.Code)
	binary.BigEndian.PutUint16(p[10:], h.Proto)
	copy(p[12:28], h.Tenant[:])
	binary.BigEndian.PutUint16(p[28:], h.CapLen)
	binary.BigEndian.PutUint64(p[30:], h.CorrID)
}

// check applies the rules of SPEC.md §3 to a header, in their order. It returns a *DecodeError for the
// first rule that is broken. items says that the later frames of a request carry what a put streams,
// so they may have maxFrame bytes (§13.8).
func (h *Header) check(maxFrame uint32, items bool) error {
	switch {
	case h.Len < HeaderSize || uint32(h.CapLen) > h.Len-HeaderSize:
		return refuse(ReasonFrameUndersize, "len %d, cap_len %d", h.Len, h.CapLen)
	case h.Len > maxFrame:
		return refuse(ReasonFrameOversize, "len %d, max_frame %d", h.Len, maxFrame)
	case h.Flags.Has(FlagReq) && (!items || h.Flags.Has(FlagStart)) &&
		(h.CapLen > MaxCap || h.Len-HeaderSize-uint32(h.CapLen) > MaxJSON):
		return refuse(ReasonFrameOversize, "request of %d bytes and capability of %d bytes, at most %d and %d",
			h.Len-HeaderSize-uint32(h.CapLen), h.CapLen, MaxJSON, MaxCap)
	case h.Ver != Version:
		return refuse(ReasonBadVersion, "ver %d", h.Ver)
	case !h.Flags.valid():
		return refuse(ReasonBadFlags, "flags %s", h.Flags)
	case h.CapLen > 0 && !h.Flags.Has(FlagReq|FlagStart):
		return refuse(ReasonCapOnNonStart, "flags %s, cap_len %d", h.Flags, h.CapLen)
	}
	return nil
}

// valid reports whether no reserved bit is set and the kind is one of those in SPEC.md §2.
func (f Flags) valid() bool {
	if f&^FlagsKnown != 0 {
		return false
	}
	switch f & flagsKind {
	case FlagReq, FlagResp, FlagEvent, FlagEvent | FlagResp:
		return true
	}
	return false
}
