package record

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Provider is a peer that may have an object. Mostly it claims so in a signed record: a
// provider record of the DHT, or a hint of gossip.
type Provider struct {
	peer.AddrInfo           // as the provider signed them; empty if they are already known
	Origin        Origin    // how the provider was found
	NotAfter      time.Time // end of the record's validity; zero: there is no record
	Seq           uint64    // when the record was signed, in Unix milliseconds by the signer's clock; 0: no record
	Via           peer.ID   // the peer that returned the provider record; empty: this node
	Proof         *Proof    // what others can verify; nil: there is no provider record
}

// Proof is the signed record of a provider and its peer record (OAP1 §11). It is shared, so nobody
// changes it.
type Proof struct{ Envelope, PeerRecord []byte }

// Origin says how a provider was found (SPEC §6).
type Origin string

// The origins, in the order in which providers are asked.
const (
	OriginNamed Origin = "named" // the caller named it
	OriginLocal Origin = "local" // this node has the object
	// it served the object or its directory, or a peer that was asked gave its record
	OriginServed    Origin = "peer"
	OriginGossip    Origin = "gossip"    // it announced the object, or the directory, by gossip
	OriginConnected Origin = "connected" // it is connected, and says that it has the object
	OriginDHT       Origin = "dht"       // the DHT had a record of it
)
