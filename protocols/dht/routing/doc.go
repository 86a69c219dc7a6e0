// Package routing provides the node's own routing table (SPEC §5): the peers that
// answered, in buckets by the number of leading key bits that they share with the node.
//
// There are 32 buckets of at most K peers. Each bucket has a bounded queue of updates and one writer, which drains the
// queue and publishes a new snapshot of the bucket. Readers use snapshots and never wait. The caller of a peer reports
// the result with [Table.Seen] or [Table.Failed].
//
// Invariants:
//
//   - Only a bucket's writer changes it. A snapshot never changes, except the counters of
//     its entries (last seen, round trip, failures).
//   - A bucket has at most K entries: each peer once, in the one bucket of its key, and
//     never the node itself.
//   - At most floor(GroupShare × K) entries of a bucket, at least one, share an
//     [ipgroup.Group]. One network of addresses therefore cannot take over a bucket.
//   - No call waits longer than 100 ms. An update that is dropped after that is counted.
//   - Only a peer that answered is added. A new peer never replaces an old one that still
//     answers, because old peers are the most likely to stay.
//
// One update: a lookup calls Seen(ctx, p, rtt), which queues the update for p's bucket. If
// the writer finds p among the entries, it stores the time and the round trip. Otherwise
// p needs a place. In a full bucket p replaces the entry that failed last, or else one
// that was silent for StaleAfter; if there is none, p is refused. The writer then looks up
// p's addresses. It refuses p if p has none, or if one of their groups already has its
// share of the bucket. Otherwise it publishes a snapshot with p.
package routing
