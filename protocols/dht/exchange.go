package dht

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/dht/names"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
)

// Operations of the provider exchange.
const (
	opPut     = 1
	opGet     = 2
	opPutName = 3
	opGetName = 4
)

// request is a message of the asking peer (OAP1 §11). Absent members are empty. A get has
// neither Envelope nor PeerRecord, a put of a name no PeerRecord.
type request struct {
	Op         uint64 `cbor:"0,keyasint"`
	Key        []byte `cbor:"1,keyasint"`
	Envelope   []byte `cbor:"2,keyasint,omitempty"`
	PeerRecord []byte `cbor:"3,keyasint,omitempty"`

	root b3.Root   // what Key stands for, if Op is about providers
	name names.Key // what Key stands for, if Op is about names
}

// response answers a request. Code is of the OAP column of SPEC §3. Reason is a Refusal or
// the label of an outcome, and empty if Code is 200.
type response struct {
	Code      uint64         `cbor:"0,keyasint"`
	Providers []wireProvider `cbor:"1,keyasint,omitempty"`
	Closer    []wirePeer     `cbor:"2,keyasint,omitempty"`
	Reason    string         `cbor:"3,keyasint,omitempty"`
}

type wireProvider struct {
	_          struct{} `cbor:",toarray"`
	Envelope   []byte
	PeerRecord []byte
}

type wirePeer struct {
	ID    []byte   `cbor:"1,keyasint"`
	Addrs [][]byte `cbor:"2,keyasint,omitempty"`
}

// maxReason bounds a reason in bytes. The longest one is far shorter.
const maxReason = 64

// decodeRequest checks the encoding, the operation and its members, and the sizes. The record
// is not verified.
func decodeRequest(p []byte) (q request, err error) {
	if err := canonical.Unmarshal(p, &q); err != nil {
		return q, status.Errorf(status.BadRequest, "decode request: %w", err)
	}
	switch q.Op {
	case opGet, opPut:
		q.root, err = b3.FromMultihash(q.Key)
		if err == nil && !bytes.Equal(q.root.Multihash(), q.Key) {
			err = record.ErrNotCanonical
		}
	case opGetName, opPutName:
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
func (q request) checkRecord() error {
	switch q.Op {
	case opGet, opGetName:
		if q.Envelope != nil || q.PeerRecord != nil {
			return status.Errorf(status.BadRequest, "a get request must not carry a record")
		}
	case opPut:
		if len(q.Envelope) > maxEnvelope || len(q.PeerRecord) > maxPeerRecord {
			return refuse(Oversize, fmt.Errorf("envelope has %d bytes, peer record %d", len(q.Envelope), len(q.PeerRecord)))
		}
		if len(q.Envelope) == 0 || len(q.PeerRecord) == 0 {
			return refuse(Unsigned, errors.New("a put request needs a record"))
		}
	case opPutName:
		if q.PeerRecord != nil {
			return status.Errorf(status.BadRequest, "a name has no peer record")
		}
	}
	return nil
}

// decodeResponse checks the encoding and the bounds of OAP1 §11. The caller must verify
// the records.
func decodeResponse(p []byte) (response, error) {
	var r response
	if err := canonical.Unmarshal(p, &r); err != nil {
		return r, status.Errorf(status.Upstream, "decode response: %w", err)
	}
	bad := func(what string) (response, error) {
		return r, status.Errorf(status.Upstream, "invalid response: %s", what)
	}
	switch {
	case r.Code < 100 || r.Code > 599:
		return bad("no status")
	case len(r.Providers) > maxProviders || len(r.Closer) > maxCloser:
		return bad("too many records or peers")
	case len(r.Reason) > maxReason:
		return bad("bad reason")
	}
	for _, c := range r.Closer {
		if len(c.Addrs) > maxCloserAddrs {
			return bad("too many addresses")
		}
	}
	return r, nil
}

// err returns the error that a response reports, nil for a success.
func (r response) err() error {
	if r.Code < 300 {
		return nil
	}
	if _, ok := refusals[Refusal(r.Reason)]; ok {
		return refuse(Refusal(r.Reason), errors.New("the remote peer refused it"))
	}
	return r.outcome()
}

// outcome is err without the reasons of provider records.
func (r response) outcome() error {
	if r.Code < 300 {
		return nil
	}
	o, ok := status.Parse(r.Reason)
	if !ok || o.Success() {
		o = status.FromCode(int(r.Code))
	}
	return status.Errorf(o, "the peer answered %d %s", r.Code, r.Reason)
}

// closer returns the closer peers of a response. It leaves out peers and addresses that
// cannot be parsed.
func (r response) closer() []peer.AddrInfo {
	infos := make([]peer.AddrInfo, 0, len(r.Closer))
	for _, c := range r.Closer {
		id, err := peerID(c.ID)
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

// errorResponse returns the response that reports err.
func errorResponse(err error) response {
	o := status.Of(err)
	r := response{Code: uint64(o.Code()), Reason: o.String()}
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

// nameResponse packs the records of a name, at most two, and closer peers.
func nameResponse(held []name.Signed, closer []peer.AddrInfo) response {
	r := response{Code: uint64(status.OK.Code())}
	left := maxMessage - 64
	for _, rec := range held {
		left -= len(rec.Envelope) + 8
		r.Providers = append(r.Providers, wireProvider{Envelope: rec.Envelope})
	}
	r.addCloser(closer, left)
	return r
}

// getResponse packs records and closer peers into at most maxMessage bytes and drops the
// rest. Records take at most three quarters, because a lookup without closer peers cannot
// continue.
func getResponse(held []sealed, closer []peer.AddrInfo) response {
	r := response{Code: uint64(status.OK.Code())}
	left := maxMessage - 64 // the message around the two lists
	for _, s := range selectFair(held[:min(len(held), maxProviders)], left-maxMessage/4) {
		left -= s.size()
		r.Providers = append(r.Providers, wireProvider{Envelope: s.envelope, PeerRecord: s.peerRecord})
	}
	r.addCloser(closer, left)
	return r
}

// addCloser adds the closer peers that fit into left bytes.
func (r *response) addCloser(closer []peer.AddrInfo, left int) {
	for _, info := range closer[:min(len(closer), maxCloser)] {
		w := wirePeer{ID: []byte(info.ID)}
		size := len(w.ID) + 8
		for _, a := range info.Addrs {
			raw := a.Bytes()
			if len(raw) > maxAddr || len(w.Addrs) == maxCloserAddrs {
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
