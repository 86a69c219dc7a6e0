package dht

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/record"
)

// This file has what other protocols need of the records: what this node holds, and the
// verification of what peers show.

// HeldProviders returns the providers of root whose records this node holds, as it tells them to
// peers of the DHT: at most 20, this node among them if it has the object, and none if root is
// denied or the service does not run. It asks nobody.
func (s *Service) HeldProviders(ctx context.Context, root b3.Root) []record.Provider {
	r := s.lookups.current()
	if r == nil {
		return nil
	}
	var found []record.Provider
	for _, rec := range r.server.records(ctx, root) {
		found = append(found, asProvider(rec.Sealed, ""))
	}
	return found
}

// OpenProvider verifies the record of a provider of root and its peer record, and remembers the
// provider's addresses. It waits for a place among the verifications until ctx ends. The error is a
// *[messages.RecordError] if the record is refused.
func (s *Service) OpenProvider(
	ctx context.Context, root b3.Root, envelope, peerRecord []byte,
) (record.Provider, error) {
	rec, err := s.verify.open(ctx, envelope, peerRecord, root)
	if err != nil {
		s.m.refused(err)
		return record.Provider{}, err
	}
	s.deps.Host.Peerstore().AddAddrs(rec.Provider, rec.Addrs.Addrs, addressTTL)
	return asProvider(rec, ""), nil
}

// asProvider returns the provider of a verified record. via is the peer that returned it; empty: this
// node.
func asProvider(rec messages.Sealed, via peer.ID) record.Provider {
	return record.Provider{
		AddrInfo: peer.AddrInfo{ID: rec.Provider, Addrs: rec.Addrs.Addrs}, Origin: record.OriginDHT,
		Seq: rec.Seq, NotAfter: rec.NotAfter, Via: via,
		Proof: &record.Proof{Envelope: rec.Envelope, PeerRecord: rec.PeerRecord},
	}
}
