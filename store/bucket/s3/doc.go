// Package s3 provides a client of an S3-compatible bucket: it puts, reads, lists
// and deletes objects below a prefix, and returns the outcomes of SPEC §3.
//
// Every request passes one gate (store.bucket). A request is tried at most three times,
// with the pauses of SPEC §2. A try fails when it takes longer than the timeout plus the
// time that its bytes need at 256 KiB/s. The server checks the SHA-256 of each part of a
// put. The client does not check what it reads: the store verifies every byte.
//
// A small put is a single request, so its object appears whole or not at all. A larger
// object is sent in parts of at least 16 MiB, read from the file while they are sent.
// It appears when the last request ends. A crash leaves parts behind, which the
// bucket's lifecycle removes (docs/running/bucket.md).
//
// A call of [Bucket.Put] computes the digests, sends each request through call, and retries
// in retry. classify turns the last error into an outcome, and [Meters] record whether the
// bucket could be reached.
package s3
