// Package peerindex asks a few peers that the operator chose before it asks the DHT: what
// resolver.ask lists. It implements the finders of packages providers and names.
//
// Invariants:
//
//   - The first peer is asked at once. A source that has brought nothing for
//     resolver.hedge_after is joined by the next one, and one that has failed or knows
//     nothing is followed at once. The DHT is the last source.
//   - The answers of peers arrive verified: see package protocols/index.
//   - A fresh search asks all sources at once and takes the highest record of all.
//   - Every goroutine ends before the search returns.
//
// One search: a light node resolves blog.k51…. [Finder.FindName] asks the first peer. After 150 ms
// without an answer it asks the second one, whose record arrives; that is the result, and the
// request to the first peer is canceled. The DHT was not asked.
package peerindex
