package reach

import "time"

// Relays is the number of reservations that a node keeps: one may go away.
const Relays = 2

const (
	relayAddrs     = 4                // addresses of one relay that are announced
	reserveTimeout = 5 * time.Second  // for one reservation, the dial included
	attempts       = 4                // reservations under way; the rest wait for the next look
	minReservation = 2 * time.Minute  // a relay that offers less is not used
	maxReservation = 90 * time.Minute // what a relay offers beyond that is not believed

	firstRetry = 10 * time.Second // until a relay that failed is tried again; doubled after each failure
	maxRetry   = 30 * time.Minute
	maxFailed  = 256 // relays whose failures are remembered, the latest

	maxReserved = 16 // relays whose reservations are remembered, the latest

	lookGap   = 50 * time.Millisecond // shortest time between two looks
	lookEvery = time.Minute           // longest time between two looks
	offline   = 5 * time.Minute       // without a connection to a public address, until the node counts as offline
)

// Bounds of the service for others. docs/running/seeds.md has them.
const (
	circuits      = 256             // relayed connections in all
	circuitBytes  = 4 << 20         // of one circuit in each direction: small files pass, more has to be direct
	circuitTime   = 2 * time.Minute // of one circuit
	peerCircuits  = 64              // of one peer, and opened by the peers of one IP address
	reservations  = 512             // peers that may be reached through this node
	ipReservation = 8               // of one IP address
	asReservation = 64              // of one autonomous system (IPv6)
	relayRate     = 4 << 20         // bytes a second of all circuits; while they are spent, no circuit is opened
	relayBurst    = 64 << 20        // bytes
	identifyWait  = 2 * time.Second // for the protocols of a peer that asks for a place

	// punchTimeout bounds one attempt to punch a hole. The library makes three; behind some routers only the
	// third works, when the roles change.
	punchTimeout = 5 * time.Second

	// The waits for a direct connection, before bulk takes a relayed one: firstWait from the start of that one, and
	// bulkWait from the start of the request, all dials included. The fetch counts a peer as stuck after 5 s
	// without bytes.
	firstWait = 2 * time.Second
	bulkWait  = 3800 * time.Millisecond
	redialGap = time.Minute // shortest time between two such dials of a peer

	bulkAgain = time.Hour // until bulk may take another circuit to the same peer
	maxBulk   = 1024      // peers whose circuit is remembered, the latest
)
