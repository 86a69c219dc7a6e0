// Package store provides a set of verified objects, addressed by the BLAKE3 hash of their bytes.
// The objects are on disk (FORMAT.md describes the files), in a bucket, or in RAM.
//
// A [Store] is the logic that all backends share; a backend keeps bytes and decides when they are
// durable. Package disk is the backend for files and for buckets, package memory the one for RAM.
// An object of at most one group (64 KiB) is small: a record in an append-only segment. A larger
// object is a plain file, a file with its outboard, and a record in a segment. The log and the
// files are the truth; the index is built from them.
//
// # Invariants
//
//   - An object is visible if and only if all its bytes are stored and hash to its address. A deferred object becomes
//     visible when it is durable. Only the groups of a partial object that have arrived can be read.
//   - A put that returned without Deferred survives kill -9 and power loss. So does every put
//     before a Flush that returned nil.
//   - Bytes leave proved: as [b3.Proved], through a [b3.Reader], or checked whole. An object that
//     fails a check is marked corrupt, counted, reported to Deps.Damaged, and refused until it is
//     put again.
//   - An object that is pinned, leased, open or being written is never removed. Neither is one
//     that was put or found since the oldest GC hold began.
//   - No lock is held across I/O.
//
// # Life of a request
//
// Start: [New] wires the packages below to each other. [Store.Run] opens the backend, which replays
// the log from its last checkpoint. Run then starts the background jobs and calls ready. Every
// method enters through package admission, which refuses it before ready and while Run drains.
//
// Add: [Store.PutBytes] hashes 4 KiB. commitSmall takes a lease on the address and returns if the
// object is already stored. Otherwise it charges the quota, reserves space and calls the backend's
// Put, which appends the object to the batch being filled. The log's writer writes the batch
// together with the waiting removals and pins, calls fdatasync, and enters them in the index.
// Then it wakes the callers. [Store.Put] streams more than one group into a staged file, hashing as
// it writes, and commitLarge publishes the file. A download of a known address goes through package
// partial ([Store.Ingest]); an upload in durable pieces through package upload ([Store.Uploads]).
//
// Get: Open, of package objects, takes a lease and looks in the RAM cache, in the cache of open files,
// then in the index. It returns an [Object], whose Reader proves each group before it returns it.
// Failed, of that object, marks damage.
//
// Pin: Pin, of package pins, finds the object, counts it in the label's quota and commits the pin. For a
// recursive pin it also waits for a garbage collection that read the pins earlier.
//
// GC: [Store.Collector] marks what pins, leases and holds protect, and removes the rest or evicts
// the least recently used objects. It also runs by itself when space runs short. [Store.Delete]
// removes one object if nothing protects it. [Store.MoveOut] gives its file away instead, and
// [Store.MoveAndRestore] has package moved copy the object back from it in the background.
//
// Each algorithm is in the package that owns it: objects (look-ups, open objects, proofs), pins, moved
// (files that became the output of a get), gc (mark and sweep, eviction, space), partial (downloads),
// upload, quota, scrub (the background check), uses (last uses and GC holds), cache, lease. A Store
// embeds objects and pins: they are the parts of its API that read and that pin. Run owns the
// goroutines: writing the log, compaction, checkpoints of downloads, eviction, writing last uses, expiry
// of uploads, the scrub, restoring objects that were moved out, and copying to the bucket.
package store
