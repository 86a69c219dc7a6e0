package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
)

// Params are fixed numbers of discovery. Tests set them through [Config].
type Params struct {
	// K is the number of peers that hold a record, the bucket size of the routing table and the number
	// of peers in an answer. All nodes of one network must agree on it.
	K int `fixed:"k"`

	// HedgeFixed makes every peer late after HedgeAfter, whatever its past round trips. Simulations
	// compare with it.
	HedgeFixed bool `fixed:"hedge_fixed"`

	// HopBudget bounds the hops of a lookup; the node's own table is hop 1. Then hop_exceeded.
	HopBudget int `fixed:"hop_budget"`

	// Refresh is the interval, ± 20 %, at which the routing table is refreshed. An entry silent for this
	// long may be replaced by a peer that answers.
	Refresh time.Duration `fixed:"refresh"`

	// GroupShare is the share of a bucket that peers of one IP group (IPv4 /16; IPv6 ASN, or /32) may
	// take. Further peers of the group are refused. Private addresses are exempt.
	GroupShare float64 `fixed:"group_share"`

	// RPCTimeout bounds one call to a peer, dial included. Then the call has failed. HedgeAfter is at
	// most this.
	RPCTimeout time.Duration `fixed:"rpc_timeout"`

	// PublishTimeout bounds the publishing of one record. Then the next cycle tries again.
	PublishTimeout time.Duration `fixed:"publish_timeout"`

	// MaxPerKey bounds the records stored for one object, as many as an answer carries. A full key
	// replaces a record of the IP group that has most.
	MaxPerKey int `fixed:"max_per_key"`

	// MaxPerPeer bounds the records stored of one provider. Its next is refused with quota. MaxRecords
	// bounds the records of all.
	MaxPerPeer int `fixed:"max_per_peer"`

	// AnnounceQueue bounds the objects waiting to be announced. When it is full, the sweep announces
	// further objects at its next cycle.
	AnnounceQueue int `fixed:"announce_queue"`

	// Names bounds the name records that this node holds for others.
	Names namestore.Config `koanf:"-"`
}

// defaultParams returns the values that every node uses.
func defaultParams() Params {
	return Params{
		K:              20,
		HopBudget:      5,
		Refresh:        10 * time.Minute,
		GroupShare:     0.4,
		RPCTimeout:     1500 * time.Millisecond,
		PublishTimeout: time.Minute,
		MaxPerKey:      messages.MaxProviders,
		MaxPerPeer:     25_000,
		AnnounceQueue:  4096,
		Names:          namestore.DefaultConfig(),
	}
}

// Prefix is the prefix of all routing protocols of the network.
const Prefix = protocol.ID("/allium")

// KadID is the routing protocol: go-libp2p-kad-dht's under Prefix.
const KadID = Prefix + "/kad/1.0.0"

// ProviderID is the protocol of the provider exchange (OAP1 §11).
const ProviderID = Prefix + "/prov/1.0.0"

// Bounds of this implementation. Those of the exchange are in package exchange.
const (
	maxKadMessage = 128 << 10 // bytes of a response on KadID; 21 peers with all addresses take less than 30 KiB

	maxWaitingLookups = 512 // lookups of this node that wait; further ones get busy
	maxWaitingDials   = 512 // calls to unconnected peers that wait; further ones get busy

	// A record that was signed less than recordReuse ago is sent again. The cache of
	// signed records holds maxSigned records of about 600 bytes.
	recordReuse = time.Minute
	maxSigned   = 1024

	// serveTimeout bounds a whole exchange on the serving side. Messages are small, so
	// this bound also covers the 5 s without progress of SPEC §2.
	serveTimeout = 5 * time.Second

	// addressTTL is the time for which the peerstore keeps the addresses of a found provider that
	// nobody connects to.
	addressTTL = 10 * time.Minute
)
