// Package dht finds the providers of an object and publishes what this node provides
// (SPEC §5). It uses Kademlia under the prefix /allium for routing, and its own
// protocol /allium/prov/1.0.0 (OAP1 §11) for signed provider records.
//
// A provider record is a libp2p envelope that the provider signs over {multihash, peer ID, seq, not_after}. The
// provider's addresses travel beside it as a signed libp2p peer record. go-libp2p-kad-dht provides the wire format of
// routing and its server side, with a separate routing table. Its provider and value stores are off: GET_PROVIDERS and
// FIND_NODE are answered by this package, which tells no private address to a peer from outside.
//
// Invariants:
//
//   - A record is verified before it is stored or returned: the signature, that the
//     provider signed it, that it is for the requested key, and that it lives no longer
//     than 24 h.
//   - A peer stores only its own records. A newer record replaces an older one, never
//     the reverse.
//   - Everything that a stranger can fill is bounded: sizes of messages and records;
//     records per key, per peer and in all; requests in flight and per second; signatures
//     verified at a time; probes and hops of a lookup.
//   - Records compete for space by the IP group of the connection that they came over,
//     because identities cost nothing. A new record replaces a stored one only if that
//     belongs to a group with more records. Each key has a place for a provider that was
//     dialed back.
//   - No lookup waits for a request that it no longer needs: the stream is reset.
//
// The records of names (SPEC §6) travel in two more operations of the same exchange. Anybody may
// put a valid one, and holders pass it on until it expires. A lookup takes the highest of three
// holders and gives it to those that were behind.
//
// The sub-packages: routing is the table of peers that answered, exchange has the messages of
// the provider exchange and their signed records, guard admits requests of strangers, seeds
// joins the network, sweep publishes again, dialback checks which providers can be reached,
// and kadhost adapts go-libp2p-kad-dht. This package holds the store of records, the handlers
// of the provider exchange, the RPC client that makes every remote call, and the engine that
// drives the lookups of package kad.
//
// One lookup: [Service.FindProviders] first yields the records in the local store. The
// engine then takes the peers of the routing table closest to SHA-256(multihash) and
// sends each a GET, three at a time. A response holds records and closer peers. Records
// are verified on a bounded number of goroutines and yielded as they arrive; closer peers
// are asked next. When a peer is late, another is asked in its place. The lookup ends when
// it has enough providers, when the 20 closest peers that answer have been asked, or after
// 2 s. Requests in flight are then reset. The RPC client reports the result and round-trip
// time of each call to the routing table.
package dht
