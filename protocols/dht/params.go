package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
)

// Params are the numbers of discovery that nobody tunes. Tests set them through [Config].
type Params struct {
	// K is how many peers hold a record, and the bucket size of the routing table. The nodes of one
	// network agree on it; an answer carries as many.
	K int `fixed:"k"`

	// HedgeFixed makes every peer late after HedgeAfter, however fast it is known to be. Simulations
	// compare with it.
	HedgeFixed bool `fixed:"hedge_fixed"`

	// HopBudget bounds the hops of a lookup, the own table being the first; then hop_exceeded.
	HopBudget int `fixed:"hop_budget"`

	// Refresh is how often the routing table is refreshed, ± 20 %. An entry not heard of for so long
	// gives way to a peer that answers.
	Refresh time.Duration `fixed:"refresh"`

	// GroupShare is the share of a bucket that peers of one IP group (IPv4 /16; IPv6 ASN, or /32) may
	// have. Further ones are refused. Private addresses are exempt.
	GroupShare float64 `fixed:"group_share"`

	// RPCTimeout bounds one call to a peer, dial included; the peer has failed then. HedgeAfter is at
	// most this.
	RPCTimeout time.Duration `fixed:"rpc_timeout"`

	// PublishTimeout bounds the publishing of one record; it is tried again at the next cycle.
	PublishTimeout time.Duration `fixed:"publish_timeout"`

	// MaxPerKey bounds the records held for one object, as many as an answer carries. No IP group may
	// keep more than others want.
	MaxPerKey int `fixed:"max_per_key"`

	// MaxPerPeer bounds the records held of one provider. Its next is refused with quota. MaxRecords
	// bounds those of all.
	MaxPerPeer int `fixed:"max_per_peer"`

	// AnnounceQueue bounds the objects waiting to be announced at once. What does not fit is announced
	// by the sweep.
	AnnounceQueue int `fixed:"announce_queue"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		K:              20,
		HopBudget:      5,
		Refresh:        10 * time.Minute,
		GroupShare:     0.4,
		RPCTimeout:     1500 * time.Millisecond,
		PublishTimeout: time.Minute,
		MaxPerKey:      maxProviders,
		MaxPerPeer:     25_000,
		AnnounceQueue:  4096,
	}
}

// Prefix is what all routing protocols of the network start with.
const Prefix = protocol.ID("/allium")

// KadID is the routing protocol, go-libp2p-kad-dht's under our prefix.
const KadID = Prefix + "/kad/1.0.0"

// ProviderID is the provider exchange of OAP1 §11.
const ProviderID = Prefix + "/prov/1.0.0"

// Bounds of the wire format, fixed by OAP1 §11.
const (
	maxMessage     = 16 << 10 // bytes of a request or a response
	maxProviders   = 20       // records in a response
	maxCloser      = 20       // closer peers in a response
	maxCloserAddrs = 8        // addresses of a closer peer

	maxLifetime = 24 * time.Hour // of a record
	clockSkew   = 2 * time.Minute
)

// Bounds of our own. An Ed25519 record is 216 bytes, a peer record 214 with
// three addresses; larger ones are refused.
const (
	maxEnvelope   = 512
	maxPeerRecord = 1024
	maxPeerID     = 64        // bytes
	maxAddr       = 128       // bytes of a closer peer's address
	maxKadMessage = 128 << 10 // bytes of an answer on KadID: 20 peers with all their addresses are below 30 KiB

	waitingLookups = 512 // lookups of our own; more are busy
	waitingDials   = 512 // calls to strangers; more are busy

	// A record that was signed less than recordReuse ago is sent again; as many
	// as recordCache are kept, about 600 bytes each.
	recordReuse = time.Minute
	recordCache = 1024

	// serveTimeout is for a whole exchange on the serving side: messages are
	// small, so no progress for 5 s (SPEC §2) and no end after 5 s are the same.
	serveTimeout = 5 * time.Second

	// addressTTL is how long the addresses of a provider found stay in the
	// peerstore when nobody connects to it.
	addressTTL = 10 * time.Minute
)
