package dht

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/names"
	"allium/protocols/name"
	"allium/protocols/status"
)

// providerClient sends requests of the provider exchange.
type providerClient struct {
	rpc *rpcClient
	m   *metrics
}

// put sends p a record and returns nil once p has acknowledged it.
func (x *providerClient) put(ctx context.Context, p peer.ID, s sealed) error {
	r, err := x.roundTrip(ctx, p, request{
		Op: opPut, Key: s.Root.Multihash(), Envelope: s.envelope, PeerRecord: s.peerRecord,
	})
	if err != nil {
		return err
	}
	return r.err()
}

// get asks p for the providers of root. The caller must verify the records.
func (x *providerClient) get(ctx context.Context, p peer.ID, root b3.Root) (response, error) {
	r, err := x.roundTrip(ctx, p, request{Op: opGet, Key: root.Multihash()})
	if err != nil {
		return r, err
	}
	return r, r.err()
}

// putName sends p the record of a name and returns nil once p has acknowledged it.
func (x *providerClient) putName(ctx context.Context, p peer.ID, rec name.Signed) error {
	key := rec.Name.Digest()
	r, err := x.roundTrip(ctx, p, request{Op: opPutName, Key: key[:], Envelope: rec.Envelope})
	if err != nil {
		return err
	}
	return r.outcome()
}

// getName asks p for the record of a name. The caller must verify it.
func (x *providerClient) getName(ctx context.Context, p peer.ID, key names.Key) (response, error) {
	r, err := x.roundTrip(ctx, p, request{Op: opGetName, Key: key[:]})
	if err != nil {
		return r, err
	}
	return r, r.outcome()
}

// roundTrip sends a request and returns the response, whatever outcome that reports.
func (x *providerClient) roundTrip(ctx context.Context, p peer.ID, q request) (r response, err error) {
	start := time.Now()
	defer func() { x.m.rpc("prov", start, err) }()
	raw, err := canonical.Marshal(q)
	if err != nil {
		return r, err
	}
	if len(raw) > maxMessage {
		return r, status.Errorf(status.FrameOversize, "request is %d bytes, more than %d", len(raw), maxMessage)
	}
	answer, _, err := x.rpc.call(ctx, p, ProviderID, raw, maxMessage)
	if err != nil {
		return r, err
	}
	return decodeResponse(answer)
}
