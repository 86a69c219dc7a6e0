// Package tree fetches directories with everything below them: many small objects
// in one request, and each large one by a transfer.
//
// Invariants:
//
//   - Memory is bounded for a tree of any size.
//   - An object that is local, or occurred before in the tree, is not requested.
//   - The root is stored last, so that an unfinished tree never looks whole.
//   - One fetch of a root runs at a time.
//
// One fetch: [Fetcher.Fetch] waits for the other fetch of the same root and for a
// place in the gate. It reads the root from the store or from a peer into memory.
// If the root is a directory, its entries are looked up in the store, 256 at a time.
// Missing directories are fetched first, as far as possible depth first, since they
// name further objects. Missing small files gather in batches of up to 256 objects
// and 8 MiB. A worker sends a batch to the tree's sources, and what those lack to
// the objects' own providers. When everything below the root is durable, the root
// is stored.
package tree
