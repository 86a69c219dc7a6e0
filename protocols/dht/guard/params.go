package guard

import (
	"time"

	"allium/internal/limits"
)

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

// Params are the bounds of answering that nobody tunes. Tests set them through [Config].
type Params struct {
	// Bytes bounds the bytes of requests in flight; the next is refused with busy. It has room for the
	// longest request, 16 KiB, of each of Inflight.
	Bytes limits.Bytes `fixed:"bytes"`

	// PeerRate bounds the requests per second of one peer, with a burst of as many; then rate_limit.
	// Rate bounds all.
	PeerRate int `fixed:"peer_rate"`

	// PeerInflight bounds the requests in flight of one peer; then quota. Inflight bounds all.
	PeerInflight int `fixed:"peer_inflight"`

	// Workers bounds the requests being worked on at once; 0 is four for each processor.
	Workers int `fixed:"workers"`

	// Queue bounds the requests waiting for a worker. The next is refused with busy.
	Queue int `fixed:"queue"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		Bytes:        64 << 20,
		PeerRate:     500,
		PeerInflight: 64,
		Queue:        512,
	}
}
