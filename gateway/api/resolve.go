package api

import (
	"time"

	"allium/protocols/answer"
)

// How sure it is that a peer has an object, the lowest first.
const (
	Hint   = answer.Hint   // it announced the object by gossip, or served the directory of it
	Signed = answer.Signed // the DHT has its signed record
	Served = answer.Served // it sent verified bytes of the object, or is this node and has it
)

// The answers of /resolve and /providers. Peers send them to each other too (OAP1 §10), so they
// belong to the protocol.
type (
	// Provider is a peer that may have an object.
	Provider = answer.Provider
	// Resolved names the providers of an object, the best first.
	Resolved = answer.Resolved
	// Record is the signed record of a name.
	Record = answer.Record
	// Providers lists the providers of an object, the best first.
	Providers = answer.Providers
)

// MaxProviders is the highest limit of a Query (SPEC §9).
const MaxProviders = answer.MaxProviders

// MaxRegion is the length of the longest region, in bytes.
const MaxRegion = 32

// Query says which providers of an object are wanted.
type Query struct {
	Limit        int           // at most that many, 1 to MaxProviders; 0: the node's default
	Region       string        // only those that say they are there; empty: all
	MinFreshness time.Duration // only those whose record was signed at most so long ago; 0: all
	MaxStale     time.Duration // also a record of a name that ended at most so long ago; 0: none; only for Resolve
	Fresh        bool          // ask the network, and use neither the cache nor what the node knows
	All          bool          // go on until Limit are known or everyone was asked
}

// FindOptions modify FindProviders. It always goes on as Query.All says.
type FindOptions struct {
	Query
	Trace *Trace // is filled by the time the sequence ends, see Trace; nil: nobody asks
}
