// Package gossip spreads small messages to every node that wants them, by
// gossipsub over a protocol of its own, /allium/gossip/1.0.0 (SPEC §4). What it
// carries are hints: they may be lost, come late or come from a liar, and
// whoever uses one verifies it first.
//
// Invariants:
//
//   - A message is at most [MaxMessage] bytes, signed by its author, on one of
//     the topics given to [New]. Anything else is refused before it costs a
//     signature check, and its bringer loses score.
//   - Every peer has a budget of frames ([Config.BurstFrames], refilled at
//     [Config.PeerRate]) and all together have another. What is beyond is
//     dropped before its signature is looked at, and counted.
//   - Nothing waits for a slow reader: full queues drop the newest message and
//     count it under a reason of gossip_dropped_total.
//   - After Run has returned no validator or handler of a topic runs.
//   - No peer is named in a metric.
//
// Messages are known by SHA-256 of topic, author and data. The author belongs to
// it: validators may judge who signed, and without the author a liar who signs
// somebody's data as its own would be refused and have the true message dropped
// as a duplicate. The sequence number does not: the same words said twice within
// [seenTTL] go around once. SHA-256 because the processor has it, and messages
// are too short for a tree hash to gain anything.
//
// One message, walked through: Publish checks its size, takes tokens of the
// publish rate, runs the topic's validator and queues it for the publisher,
// which signs it and hands it to gossipsub. At the other end a stream reader
// hands it to gossipsub's loop; the inspector cuts it if topic, size or budget
// say so; unless it was seen it waits in the validation queue for a worker that
// checks the signature and then for a place among the topic's validators. An
// accepted one is relayed to the mesh, goes through the subscription to the
// ingress queue, and a worker hands it to the topic's handler under a deadline.
package gossip
