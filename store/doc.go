// Package store keeps verified objects by address (SPEC §7): on disk, in the
// format of FORMAT.md, with their bytes in a bucket, or in RAM.
//
// A Store is shared logic over a backend: package disk, whose large objects may
// be in a bucket, or package memory. The Store decides what may happen: it hashes
// what comes in, proves what goes out, and knows pins, leases, holds, quotas and
// downloads. A backend keeps bytes and entries and decides when they are durable.
// Objects of at most one group (64 KiB) are small: they are records in append-only
// segments. Larger ones are a plain file and its outboard, and a record that says
// so: the log and the files are the truth, the index is made from them.
//
// An object comes whole (put.go), as proved groups of a known address (package
// partial), or in pieces that are durable one by one (package upload).
//
// The Store admits operations (package admission), holds leases (package lease), and
// orders what the parts do: it looks an object up, reserves space, has the backend
// commit, and notes the use. Each algorithm is in the part that owns it, and each part
// declares what it needs of the others; callers reach the parts through Collector,
// Quotas, Partials and Uploads.
//
// Beside the requests a Store works on its own, each job in one goroutine that
// Run owns: the writer of the log and compaction of segments that are mostly
// garbage (package segment), checkpoints of downloads (package partial), eviction of
// what was used least (package gc), the notes of last uses (touch.go), the end of
// uploads that expired (package upload), the scrub (package scrub), and what a bucket
// needs (package cloud).
//
// # Invariants
//
//   - An object is visible when, and only when, all its bytes are stored and
//     hashed to its address. Deferred objects are not visible; of a partial one
//     the groups that are here can be read, and no other.
//   - A put that returned without Deferred, and every put before a Flush that
//     returned nil, survives kill -9 and power loss.
//   - Bytes leave as b3.Proved, through a b3.Reader, or checked whole; an object
//     that fails is marked corrupt, counted, told to Deps.Damaged, and refused
//     until it is put again.
//   - What is pinned, leased, open or being written is never removed, nor what
//     was put or found since the oldest hold began.
//   - No lock is held across I/O. Writes to the segments go through one writer,
//     which commits what gathered while it wrote the previous batch.
//
// # One request, walked through
//
// PutBytes hashes 4 KiB, leases the address, finds it absent and appends it to
// the batch that is being filled, if there is room for it below max_bytes. The
// writer takes the batch and the removals and pins that wait beside it, writes
// them at the end of the active segment, calls fdatasync, enters them and the
// new end of the log (the watermark) in the index without sync, and wakes those
// who wait. After a crash the log is replayed from the last watermark that
// reached the disk, so an acknowledged object is found again. Open looks the
// address up, reads the record, hashes it and hands it out.
package store
