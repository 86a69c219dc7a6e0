// Package sent tells when a peer has got all of an object that this node shares, for the lines of
// `allium share`.
//
// A [Watch] knows the objects below one root. The object server reports what it has sent, and the Watch
// adds it up for each peer. A peer that had a part before is asked whether it has the rest, and asked again for a
// minute, as it makes the last bytes durable after they were sent.
//
// Invariants:
//
//   - Memory is bounded: by the objects of the tree, the peers, and the ranges of partly sent files.
//   - Each peer is told of once.
//   - [Log.Sent] waits for nothing, and costs one load while nobody watches.
//
// One share, walked through: the command calls [Log.Watch] with the objects of a directory and prints the
// ticket. A peer fetches them, and each answer of the object server ends in Log.Sent. With the last one all
// objects were sent, and [Watch.Run] calls the command, which prints a line.
package sent
