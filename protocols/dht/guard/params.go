package guard

import "time"

const (
	// ioTimeout bounds the arrival of a message, from its first byte, and the
	// departure of its answer (SPEC §2).
	ioTimeout = 5 * time.Second

	// workWait is the longest wait for a worker's place: an overloaded node says
	// so instead of becoming slow, and who asks then asks somebody else.
	workWait = 100 * time.Millisecond

	// drainTimeout is how long messages in hand may take to be answered after
	// Run's context has ended; then their streams are reset.
	drainTimeout = time.Second

	// maxStreams bounds the streams being served, idle ones included; the next
	// is reset. How many of them one peer has is for the resource manager, which
	// lets in as many of each protocol.
	maxStreams = 1024

	// groupPart bounds what one IP group has of the requests in flight and of the
	// streams: one more only while it has fewer than that part of those free.
	groupPart = 4

	// maxAccounts bounds the peers remembered without a request in flight,
	// about 300 bytes each. One forgotten starts again with a full bucket.
	maxAccounts = 4096

	// smallMessage is the size up to which buffers are pooled, in bytes. A
	// FIND_NODE has about 40.
	smallMessage = 256
)
