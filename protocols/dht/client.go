package dht

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// exchanger asks other peers over the provider exchange.
type exchanger struct {
	calls *caller
	m     *metrics
}

// put gives p a record and returns nil once p has acknowledged it.
func (x *exchanger) put(ctx context.Context, p peer.ID, s sealed) error {
	_, err := x.exchange(ctx, p, request{Op: opPut, Key: s.Root.Multihash(), Envelope: s.envelope, PeerRecord: s.peerRecord})
	return err
}

// get asks p who has root. The records of the answer are still to be verified.
func (x *exchanger) get(ctx context.Context, p peer.ID, root b3.Root) (response, error) {
	return x.exchange(ctx, p, request{Op: opGet, Key: root.Multihash()})
}

func (x *exchanger) exchange(ctx context.Context, p peer.ID, q request) (r response, err error) {
	start := time.Now()
	defer func() { x.m.rpc("prov", start, err) }()
	raw, err := canonical.Marshal(q)
	if err != nil {
		return r, err
	}
	if len(raw) > maxMessage {
		return r, status.Errorf(status.FrameOversize, "dht: a request of %d bytes", len(raw))
	}
	answer, _, err := x.calls.call(ctx, p, ProviderID, raw, maxMessage)
	if err != nil {
		return r, err
	}
	if r, err = decodeResponse(answer); err != nil {
		return r, err
	}
	return r, r.err()
}
