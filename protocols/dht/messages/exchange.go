// Package messages is the wire format of the provider exchange (OAP1 §11): its requests and
// responses, the signed records of providers that they carry, and the reasons for which a
// record is refused. It opens no streams and stores nothing. The records of names in the same
// messages are those of package name.
package messages

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
)

// Bounds of the wire format, fixed by OAP1 §11.
const (
	MaxMessage     = 16 << 10 // bytes of a request or a response
	MaxProviders   = 20       // records in a response
	MaxCloser      = 20       // closer peers in a response
	MaxCloserAddrs = 8        // addresses of a closer peer

	MaxLifetime = 24 * time.Hour  // of a record, from the receiver's now
	ClockSkew   = 2 * time.Minute // by which clocks may differ
)

// Bounds of this implementation. An Ed25519 record takes 216 bytes and a peer record with
// three addresses 214. Larger ones are refused.
const (
	MaxEnvelope   = 512  // bytes of a provider record
	MaxPeerRecord = 1024 // bytes

	// MaxRecordBytes bounds the records in a response, see [Sealed.Size]. The rest is
	// for closer peers, because a lookup without them cannot continue.
	MaxRecordBytes = maxLists - MaxMessage/4

	maxLists  = MaxMessage - 64 // bytes of records and closer peers; the rest is the message around them
	maxPeerID = 64              // bytes
	maxAddr   = 128             // bytes of a closer peer's address
	maxReason = 64              // bytes; the longest reason is far shorter
)

// Operations of a [Request] (OAP1 §11).
const (
	OpPut     = 1
	OpGet     = 2
	OpPutName = 3
	OpGetName = 4
)

// Request is a message of the asking peer (OAP1 §11). Absent members are empty. A get has
// neither Envelope nor PeerRecord, a put of a name no PeerRecord.
type Request struct {
	Op         uint64 `cbor:"0,keyasint"`
	Key        []byte `cbor:"1,keyasint"`
	Envelope   []byte `cbor:"2,keyasint,omitempty"`
	PeerRecord []byte `cbor:"3,keyasint,omitempty"`

	root b3.Root           // what Key stands for, if Op is about providers
	name [sha256.Size]byte // what Key stands for, if Op is about names
}

// Root returns the object of a decoded request that is about providers.
func (q Request) Root() b3.Root { return q.root }

// Name returns the digest of the name of a decoded request that is about names, see
// [name.Name.Digest].
func (q Request) Name() [sha256.Size]byte { return q.name }

// Response answers a request (OAP1 §11). Code is of the OAP column of SPEC §3. Reason is a
// [Refusal] or the label of an outcome, and empty if Code is 200.
type Response struct {
	Code      uint64     `cbor:"0,keyasint"`
	Providers []Provider `cbor:"1,keyasint,omitempty"`
	Closer    []Peer     `cbor:"2,keyasint,omitempty"`
	Reason    string     `cbor:"3,keyasint,omitempty"`
}

// Provider is a record in a response (OAP1 §11). The record of a name has no PeerRecord.
type Provider struct {
	_          struct{} `cbor:",toarray"`
	Envelope   []byte
	PeerRecord []byte
}

// Peer is a closer peer in a response (OAP1 §11), in binary forms that may be invalid.
type Peer struct {
	ID    []byte   `cbor:"1,keyasint"`
	Addrs [][]byte `cbor:"2,keyasint,omitempty"`
}

// Encode returns the CBOR of a request. It refuses a request of more than MaxMessage bytes.
func (q Request) Encode() ([]byte, error) {
	p, err := canonical.Marshal(q)
	if err == nil && len(p) > MaxMessage {
		return nil, status.Errorf(status.FrameOversize, "request is %d bytes, more than %d", len(p), MaxMessage)
	}
	return p, err
}

// Encode returns the CBOR of a response.
func (r Response) Encode() ([]byte, error) { return canonical.Marshal(r) }

// DecodeRequest checks the encoding, the operation and its members, and the sizes (OAP1 §11). The record
// is not verified.
func DecodeRequest(p []byte) (q Request, err error) {
	if err := canonical.Unmarshal(p, &q); err != nil {
		return q, status.Errorf(status.BadRequest, "decode request: %w", err)
	}
	switch q.Op {
	case OpGet, OpPut:
		q.root, err = b3.FromMultihash(q.Key)
		if err == nil && !bytes.Equal(q.root.Multihash(), q.Key) {
			err = record.ErrNotCanonical
		}
	case OpGetName, OpPutName:
		if n := copy(q.name[:], q.Key); n != len(q.name) || n != len(q.Key) {
			err = fmt.Errorf("the key of a name has %d bytes, not %d", len(q.Key), len(q.name))
		}
	default:
		return q, status.Errorf(status.Unsupported, "operation %d is unknown", q.Op)
	}
	if err != nil {
		return q, status.Errorf(status.BadAddress, "decode request key: %w", err)
	}
	return q, q.checkRecord()
}

// checkRecord checks that the request carries the record that its operation needs.
func (q Request) checkRecord() error {
	switch q.Op {
	case OpGet, OpGetName:
		if q.Envelope != nil || q.PeerRecord != nil {
			return status.Errorf(status.BadRequest, "a get request must not carry a record")
		}
	case OpPut:
		if len(q.Envelope) > MaxEnvelope || len(q.PeerRecord) > MaxPeerRecord {
			return Refuse(Oversize, fmt.Errorf("envelope has %d bytes, peer record %d",
				len(q.Envelope), len(q.PeerRecord)))
		}
		if len(q.Envelope) == 0 || len(q.PeerRecord) == 0 {
			return Refuse(Unsigned, errors.New("a put request needs a record"))
		}
	case OpPutName:
		if q.PeerRecord != nil {
			return status.Errorf(status.BadRequest, "a name has no peer record")
		}
	}
	return nil
}

// DecodeResponse checks the encoding and the bounds of OAP1 §11. The caller must verify
// the records.
func DecodeResponse(p []byte) (Response, error) {
	var r Response
	if err := canonical.Unmarshal(p, &r); err != nil {
		return r, status.Errorf(status.Upstream, "decode response: %w", err)
	}
	bad := func(what string) (Response, error) {
		return r, status.Errorf(status.Upstream, "invalid response: %s", what)
	}
	switch {
	case r.Code < 100 || r.Code > 599:
		return bad("no status")
	case len(r.Providers) > MaxProviders || len(r.Closer) > MaxCloser:
		return bad("too many records or peers")
	case len(r.Reason) > maxReason:
		return bad("bad reason")
	}
	for _, c := range r.Closer {
		if len(c.Addrs) > MaxCloserAddrs {
			return bad("too many addresses")
		}
	}
	return r, nil
}

// Err returns the error that a response reports, nil for a success.
func (r Response) Err() error {
	if r.Code < 300 {
		return nil
	}
	if _, ok := refusals[Refusal(r.Reason)]; ok {
		return Refuse(Refusal(r.Reason), errors.New("the remote peer refused it"))
	}
	return r.NameErr()
}

// NameErr returns the error that a response about a name reports, nil for a success. It takes no
// reason for a [Refusal], which is about the record of a provider.
func (r Response) NameErr() error {
	if r.Code < 300 {
		return nil
	}
	o, ok := status.Parse(r.Reason)
	if !ok || o.Success() {
		o = status.FromCode(int(r.Code))
	}
	return status.Errorf(o, "the peer answered %d %s", r.Code, r.Reason)
}

// CloserPeers returns the closer peers of a response. It leaves out peers and addresses that
// cannot be parsed.
func (r Response) CloserPeers() []peer.AddrInfo {
	infos := make([]peer.AddrInfo, 0, len(r.Closer))
	for _, c := range r.Closer {
		id, err := ParsePeerID(c.ID)
		if err != nil {
			continue
		}
		info := peer.AddrInfo{ID: id}
		for _, raw := range c.Addrs {
			if len(raw) > maxAddr {
				continue
			}
			if a, err := ma.NewMultiaddrBytes(raw); err == nil && len(a) > 0 {
				info.Addrs = append(info.Addrs, a)
			}
		}
		infos = append(infos, info)
	}
	return infos
}

// ErrorResponse returns the response that reports err.
func ErrorResponse(err error) Response {
	o := status.Of(err)
	r := Response{Code: uint64(o.Code()), Reason: o.String()}
	var re *RecordError
	var ne *name.RecordError
	switch {
	case errors.As(err, &re):
		r.Reason = string(re.Refusal)
	case errors.As(err, &ne):
		r.Reason = string(ne.Refusal)
	}
	return r
}

// NameResponse packs the records of a name, at most two, and closer peers.
func NameResponse(held []name.Signed, closer []peer.AddrInfo) Response {
	r := Response{Code: uint64(status.OK.Code())}
	left := maxLists
	for _, rec := range held {
		left -= len(rec.Envelope) + 8
		r.Providers = append(r.Providers, Provider{Envelope: rec.Envelope})
	}
	r.addCloser(closer, left)
	return r
}

// ProviderResponse packs records of providers and closer peers into at most MaxMessage bytes. It
// drops the records beyond the first MaxProviders, and those that do not fit into MaxRecordBytes.
func ProviderResponse(held []Sealed, closer []peer.AddrInfo) Response {
	r := Response{Code: uint64(status.OK.Code())}
	records := 0
	for _, s := range held[:min(len(held), MaxProviders)] {
		if size := s.Size(); size <= MaxRecordBytes-records {
			records += size
			r.Providers = append(r.Providers, Provider{Envelope: s.Envelope, PeerRecord: s.PeerRecord})
		}
	}
	r.addCloser(closer, maxLists-records)
	return r
}

// addCloser adds the closer peers that fit into left bytes.
func (r *Response) addCloser(closer []peer.AddrInfo, left int) {
	for _, info := range closer[:min(len(closer), MaxCloser)] {
		w := Peer{ID: []byte(info.ID)}
		size := len(w.ID) + 8
		for _, a := range info.Addrs {
			raw := a.Bytes()
			if len(raw) > maxAddr || len(w.Addrs) == MaxCloserAddrs {
				continue
			}
			w.Addrs = append(w.Addrs, raw)
			size += len(raw) + 3
		}
		if size > left {
			break
		}
		left -= size
		r.Closer = append(r.Closer, w)
	}
}
