package record

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Provider is a peer that may have an object, mostly because it says so in a
// signed record: a provider record of the DHT, or a hint of gossip.
type Provider struct {
	peer.AddrInfo           // as the provider signed them; without addresses where they are known already
	Origin        Origin    // how it became known
	NotAfter      time.Time // end of the record's life; zero: there is none
	Seq           uint64    // of a provider record; the higher one is newer
	Via           peer.ID   // the peer that held the provider record; empty: this node
}

// Origin is how a provider became known (SPEC §6).
type Origin string

// The origins, in the order in which providers are asked.
const (
	OriginNamed  Origin = "named"  // the caller named it
	OriginServed Origin = "peer"   // it served the object, or the directory above it
	OriginGossip Origin = "gossip" // it announced the object, or the directory
	OriginDHT    Origin = "dht"    // the DHT had a record of it
)
