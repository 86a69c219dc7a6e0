package dht

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
	"allium/protocols/name"
)

// providerClient sends requests of the provider exchange.
type providerClient struct {
	rpc *rpcClient
	m   *metrics
}

// put sends p a record and returns nil once p has acknowledged it.
func (x *providerClient) put(ctx context.Context, p peer.ID, s messages.Sealed) error {
	r, err := x.roundTrip(ctx, p, messages.Request{
		Op: messages.OpPut, Key: s.Root.Multihash(), Envelope: s.Envelope, PeerRecord: s.PeerRecord,
	})
	if err != nil {
		return err
	}
	return r.Err()
}

// get asks p for the providers of root. The caller must verify the records.
func (x *providerClient) get(ctx context.Context, p peer.ID, root b3.Root) (messages.Response, error) {
	r, err := x.roundTrip(ctx, p, messages.Request{Op: messages.OpGet, Key: root.Multihash()})
	if err != nil {
		return r, err
	}
	return r, r.Err()
}

// putName sends p the record of a name and returns nil once p has acknowledged it.
func (x *providerClient) putName(ctx context.Context, p peer.ID, rec name.Signed) error {
	key := rec.Name.Digest()
	r, err := x.roundTrip(ctx, p, messages.Request{Op: messages.OpPutName, Key: key[:], Envelope: rec.Envelope})
	if err != nil {
		return err
	}
	return r.NameErr()
}

// getName asks p for the record of a name. The caller must verify it.
func (x *providerClient) getName(ctx context.Context, p peer.ID, key namestore.Key) (messages.Response, error) {
	r, err := x.roundTrip(ctx, p, messages.Request{Op: messages.OpGetName, Key: key[:]})
	if err != nil {
		return r, err
	}
	return r, r.NameErr()
}

// roundTrip sends a request and returns the response, whatever outcome that reports.
func (x *providerClient) roundTrip(
	ctx context.Context, p peer.ID, q messages.Request,
) (r messages.Response, err error) {
	start := time.Now()
	defer func() { x.m.rpc("prov", start, err) }()
	raw, err := q.Encode()
	if err != nil {
		return r, err
	}
	answer, _, err := x.rpc.call(ctx, p, ProviderID, raw, messages.MaxMessage)
	if err != nil {
		return r, err
	}
	return messages.DecodeResponse(answer)
}
