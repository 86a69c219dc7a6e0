package oap

import (
	"encoding/binary"
	"encoding/json"
	"slices"
)

// FeatureCompZstd is the HELLO feature of an opener that accepts responses with FlagComp.
const FeatureCompZstd = "comp-zstd"

// FeaturePutCopies is the HELLO feature of a member of a cluster that takes puts which say something of their objects
// (SPEC.md §9).
const FeaturePutCopies = "put-copies"

// HelloRequest is the opener's HELLO (SPEC.md §5).
type HelloRequest struct {
	UA       string   `json:"ua"`                  // name/version, for people; ≤ 256 bytes
	Features []string `json:"features"`            // unknown ones are ignored
	MaxFrame uint32   `json:"max_frame,omitempty"` // most bytes of a frame, MinMaxFrame – MaxFrame; 0: unknown
	Now      int64    `json:"now,omitempty"`       // the opener's clock, unix ms; 0: unknown
	// where the opener says it is, see ValidRegion; empty: it does not say
	Region string `json:"region,omitempty"`
}

// HelloResponse is the acceptor's HELLO (SPEC.md §5).
type HelloResponse struct {
	MaxFrame       uint32   `json:"max_frame"`          // most bytes of a frame with header, MinMaxFrame – MaxFrame
	MaxInflight    uint32   `json:"max_inflight"`       // most requests in flight on one session, ≥ 1
	CreditWindow   uint32   `json:"credit_window"`      // most unacknowledged frames with FlagAckReq, ≥ 1
	FlagsSupported Flags    `json:"flags_supported"`    // the flags that the acceptor knows
	Versions       []uint16 `json:"versions"`           // contains Version
	Transports     []string `json:"transports"`         // transports that listen; for people
	Features       []string `json:"features,omitempty"` // unknown ones are ignored
	Now            int64    `json:"now,omitempty"`      // the acceptor's clock, unix ms; 0: unknown
	Region         string   `json:"region,omitempty"`   // where the acceptor says it is; empty: nowhere
}

// GoAway is the payload of EVENT GOAWAY. Its sender takes no new requests; those in flight finish.
type GoAway struct {
	DrainMS int64 `json:"drain_ms"` // how long the sender waits for requests in flight, in milliseconds
}

// maxUA is the most bytes of a peer's user agent, which other nodes show.
const maxUA = 256

// MaxRegion is the most bytes of a region.
const MaxRegion = 32

// ValidRegion reports whether s is empty or a region: a label of at most MaxRegion bytes, which are
// lower-case letters, digits, "-", "." and "_".
func ValidRegion(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return len(s) <= MaxRegion
}

func refuseRegion(region string) error {
	return refuse(ReasonBadHello, "region %.40q, want at most %d of a-z, 0-9, -, . and _", region, MaxRegion)
}

// DecodeHelloRequest decodes the payload of a HELLO request. Unknown members
// and features are ignored; anything malformed is a *DecodeError bad_hello.
func DecodeHelloRequest(p []byte) (HelloRequest, error) {
	var h HelloRequest
	if err := DecodeJSON(p, &h, true); err != nil {
		return HelloRequest{}, refuse(ReasonBadHello, "%v", err)
	}
	if len(h.UA) > maxUA {
		return HelloRequest{}, refuse(ReasonBadHello, "ua has %d bytes, at most %d", len(h.UA), maxUA)
	}
	if !ValidRegion(h.Region) {
		return HelloRequest{}, refuseRegion(h.Region)
	}
	if h.MaxFrame != 0 && (h.MaxFrame < MinMaxFrame || h.MaxFrame > MaxFrame) {
		return HelloRequest{}, refuse(ReasonBadHello, "max_frame %d, want %d – %d", h.MaxFrame, MinMaxFrame, MaxFrame)
	}
	return h, nil
}

// DecodeHelloResponse decodes the payload of a HELLO response. Unknown members
// are ignored; anything malformed or out of bounds is a *DecodeError bad_hello.
func DecodeHelloResponse(p []byte) (HelloResponse, error) {
	var h HelloResponse
	if err := DecodeJSON(p, &h, true); err != nil {
		return HelloResponse{}, refuse(ReasonBadHello, "%v", err)
	}
	switch {
	case h.MaxFrame < MinMaxFrame || h.MaxFrame > MaxFrame:
		return HelloResponse{}, refuse(ReasonBadHello, "max_frame %d, want %d – %d", h.MaxFrame, MinMaxFrame, MaxFrame)
	case h.MaxInflight < 1:
		return HelloResponse{}, refuse(ReasonBadHello, "max_inflight %d", h.MaxInflight)
	case h.CreditWindow < 1:
		return HelloResponse{}, refuse(ReasonBadHello, "credit_window %d", h.CreditWindow)
	case !ValidRegion(h.Region):
		return HelloResponse{}, refuseRegion(h.Region)
	case !slices.Contains(h.Versions, Version):
		return HelloResponse{}, refuse(ReasonBadHello, "versions %v lack %d", h.Versions, Version)
	}
	return h, nil
}

// Encode returns the JSON payload.
func (h HelloRequest) Encode() []byte { return encode(h) }

// Encode returns the JSON payload.
func (h HelloResponse) Encode() []byte { return encode(h) }

// Encode returns the JSON payload.
func (g GoAway) Encode() []byte { return encode(g) }

// encode returns v as JSON. v holds only strings, numbers and slices of them, so marshalling cannot
// fail.
func encode(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return p
}

// AckFrame returns the ACK of the first n frames of h's corr_id (SPEC.md §6).
func AckFrame(h Header, n uint64) Frame {
	return Frame{
		Header:  Header{Flags: FlagEvent | FlagResp, Proto: h.Proto, CorrID: h.CorrID},
		Payload: binary.BigEndian.AppendUint64(nil, n),
	}
}

// DecodeAck decodes the payload of an ACK: the number of the last frame up to which all frames were
// received. A payload of any other length than 8 bytes is a *DecodeError credit_violation.
func DecodeAck(p []byte) (uint64, error) {
	if len(p) != 8 {
		return 0, refuse(ReasonCreditViolation, "ACK payload of %d bytes, want 8", len(p))
	}
	return binary.BigEndian.Uint64(p), nil
}
