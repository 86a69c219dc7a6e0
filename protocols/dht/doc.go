// Package dht finds who has an object (SPEC §5): Kademlia under the prefix
// /allium for routing, and a protocol of its own, /allium/prov/1.0.0 (OAP1
// §11), for signed provider records.
//
// go-libp2p-kad-dht provides the wire format of routing, its server side and a
// table of its own, with its refresh, to answer from; its provider and value
// stores are off, and GET_PROVIDERS is answered from the records held here. A provider record is a libp2p envelope signed by the provider
// over {multihash, peer id, seq, not_after}; the provider's addresses travel
// beside it as a signed libp2p peer record.
//
// Invariants:
//
//   - a record that is stored, or handed to a caller, has been verified: its
//     signature, that the signer is the provider it names, that it is for the
//     key asked, and that it lives no longer than 24 h;
//   - a peer stores records of its own alone, and a newer one replaces an older
//     one, never the reverse;
//   - everything a stranger can fill is bounded: message and record sizes,
//     records per key, per peer and in all, requests in flight and per second,
//     signatures verified at one time, probes and hops of a lookup;
//   - room is shared out by the IP group of the connection that a record came
//     over, for identities cost nothing; what is here stays, and a provider that
//     was dialled back has a place in each key;
//   - nobody waits for a loser: what a lookup no longer needs is reset.
//
// The parts, each a package below this one: routing is the table of the peers
// that answered, guard admits what strangers ask, seeds joins the network, sweep
// publishes again. Here are records and their store, the exchange, the caller
// that makes every remote call, and the engine that drives the lookups of
// package kad.
//
// One lookup, walked through: FindProviders(ctx, root, …) yields what the local
// store has, then the engine takes the peers of the routing table that are
// closest to SHA-256(multihash) and asks three at a time, each with one GET. An
// answer holds records, which are verified on a bounded number of goroutines and
// yielded as they arrive, and closer peers, which are asked next. A peer that is
// slower than it should be is late: others are asked in its place. The lookup
// ends when there are enough providers, when the 20 closest peers that answer
// have been asked, or after 2 s; what is in flight then is reset. The caller
// tells the routing table how each call went, with the round trip.
package dht
