// Package routing is the node's own routing table (SPEC §5): the peers that
// answered, by how much of their key they share with the node's.
//
// There are 32 buckets of at most K peers. Each has a bounded queue of updates
// and one writer that drains it and publishes a new snapshot of the bucket;
// readers take snapshots and never wait. Who asks a peer reports what came of
// it with [Table.Seen] and [Table.Failed]; kad-dht's table is one more reporter.
//
// Invariants:
//
//   - a bucket is changed by its writer alone, and a snapshot never changes but
//     for the counters of its entries (last seen, round trip, failures);
//   - a bucket has at most K entries, each peer once and in the one bucket of
//     its key, and never the node itself;
//   - at most floor(GroupShare × K) of them, at least one, share a [ipgroup.Group]:
//     who holds one network of addresses cannot take over a bucket;
//   - no call waits longer than 100 ms, and what it then drops is counted;
//   - nothing is added that did not answer, and old peers that still answer are
//     never replaced: they are the ones most likely to stay.
//
// One update, walked through: a lookup calls Seen(ctx, p, rtt). It goes to the
// queue of p's bucket. The writer finds p among the entries: then it notes the
// time and the round trip, and that is all. Else, if the bucket is full, the
// entry that failed last, or one not heard of for StaleAfter, is to give way; if
// there is none, p is refused. Then p's addresses are looked at: without any it
// is refused, and also when one of its groups has its share of the bucket
// already. Otherwise the writer publishes a snapshot with p in it.
package routing
