package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
)

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
