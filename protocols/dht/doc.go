// Package dht finds who has an object (SPEC §5): Kademlia under the prefix
// /allium for routing, and a protocol of its own, /allium/prov/1.0.0 (OAP1
// §11), for signed provider records.
//
// go-libp2p-kad-dht provides the wire format of routing, its server side and
// the table's refresh; its provider and value stores are off. A provider
// record is a libp2p envelope signed by the provider over {multihash, peer id,
// seq, not_after}; the provider's addresses travel beside it as a signed libp2p
// peer record.
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
//   - nobody waits for a loser: what a lookup no longer needs is reset.
//
// One lookup, walked through: FindProviders(ctx, root, 5) yields what the local
// store has, then asks the peers of the routing table that are closest to
// SHA-256(multihash), three at a time, each with one GET. An answer holds
// records, which are verified on a bounded number of goroutines and yielded as
// they arrive, and closer peers, which are asked next. It ends when five
// providers are found, when the 20 closest peers that answer have been asked,
// or after 2 s.
//
// Who decides which peer to ask next is behind [lookup]: the hedged engine of
// SPEC §5 takes that place; records, exchange, store, announcer and bootstrap
// do not change.
package dht
