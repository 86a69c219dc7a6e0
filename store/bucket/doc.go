// Package bucket speaks to an S3-compatible bucket: it puts, reads, lists and
// deletes what lies below a prefix, with the outcomes of SPEC §3.
//
// Every call runs behind one gate (store.bucket), is tried at most three times
// with the pauses of SPEC §2, and ends: a try that moves no headers or body in
// time is cut off. A put is checked by the server (SHA-256 of each part); what
// is read is not checked here: the store proves every byte.
//
// A single request is what the server sees as one step, so what is put appears
// whole or not at all. Larger objects go up in parts of at least 16 MiB, read
// from the file as they are sent, and appear when the last request ends; what a
// crash leaves behind are parts, which the bucket's lifecycle removes
// (docs/running/bucket.md).
package bucket
