// Package gossip spreads small messages to every node that subscribes to their topic, by
// gossipsub over its own protocol /allium/gossip/1.0.0 (SPEC §4). Messages are hints: they may
// be lost, late or false, and the receiver verifies a message before it uses it.
//
// Invariants:
//
//   - A message has at most [MaxMessage] bytes, is signed by its author, and belongs to one of
//     the topics given to [New]. Any other message is refused before its signature is checked,
//     and the peer that sent it loses score.
//   - Every peer has a budget of frames ([Config.BurstFrames], refilled at [Config.PeerRate]),
//     and all peers together have another. Frames beyond a budget are dropped before their
//     signatures are checked, and counted.
//   - Nothing waits for a slow reader. A full queue drops the newest message and counts it under
//     a reason of gossip_dropped_total; a full publish queue refuses it with busy instead.
//   - After Run has returned, no validator or handler of a topic runs.
//   - No metric names a peer.
//
// A message is identified by the SHA-256 of topic, author and data. The author is part of it,
// because validators may check who signed. Otherwise a malicious node could sign another node's
// data first and be refused, and the true message would be dropped as a duplicate. The sequence number is not part of
// it, so that the same data sent twice within [seenTTL] (one minute) spreads once. SHA-256 is used because
// the processor supports it and messages are too short to gain from a tree hash.
//
// One message on the node that publishes it: Publish checks its size, runs the topic's validator,
// waits for the publish rate and queues the message. sendPublications passes it to pubsub, which
// signs it and sends it to peers.
//
// The same message on a node that receives it: pubsub reads it from a stream. inspect drops it if
// its topic is unknown, it is too large or a budget is spent. If it was not seen before, it waits
// in the validation queue for a signature check, and then validator runs the topic's validator.
// pubsub relays an accepted message to the mesh. enqueueMessages moves it to the ingress queue, and
// a worker (handleMessages) calls the topic's handler with a deadline.
package gossip
