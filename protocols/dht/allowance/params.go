package allowance

import (
	"time"

	"allium/internal/limits"
)

const (
	// ioTimeout bounds the arrival of a message, from its first byte, and the sending of its
	// response (SPEC §2).
	ioTimeout = 5 * time.Second

	// workerTimeout bounds the wait for a worker. An overloaded node answers busy instead of
	// becoming slow, and the peer asks another node.
	workerTimeout = 100 * time.Millisecond

	// drainTimeout is the time that messages already read have to be answered after Run's
	// context has ended. Then their streams are reset.
	drainTimeout = time.Second

	// maxStreams bounds the streams being served, idle ones included; the next one is reset.
	// The resource manager bounds the streams of one peer. It admits the same number for each
	// protocol.
	maxStreams = 1024

	// groupFraction bounds what one IP group takes of the requests in flight and of the
	// streams. It gets another place only while it has fewer than 1/groupFraction of the free
	// ones.
	groupFraction = 4

	// maxAccounts bounds the remembered peers without a request in flight, about 300 bytes
	// each. A forgotten peer starts again with a full token bucket.
	maxAccounts = 4096

	// smallMessage is the largest message, in bytes, whose buffer is pooled. A FIND_NODE
	// takes about 40.
	smallMessage = 256
)

// Params are fixed bounds of answering. Tests set them through [Config].
type Params struct {
	// Bytes bounds the bytes of requests in flight; the next is refused with busy. The default fits the
	// longest request, 16 KiB, for each of the default Inflight.
	Bytes limits.Bytes `fixed:"bytes"`

	// PeerRate bounds the requests per second of one peer, with a burst of as many; then rate_limit.
	// Rate bounds those of all peers.
	PeerRate int `fixed:"peer_rate"`

	// PeerInflight bounds the requests in flight of one peer; then quota. Inflight bounds those of all.
	PeerInflight int `fixed:"peer_inflight"`

	// Workers bounds the requests processed at a time; 0 is four for each processor.
	Workers int `fixed:"workers"`

	// Queue bounds the requests waiting for a worker. The next is refused with busy.
	Queue int `fixed:"queue"`
}

// defaultParams returns the values that every node uses.
func defaultParams() Params {
	return Params{
		Bytes:        64 << 20,
		PeerRate:     500,
		PeerInflight: 64,
		Queue:        512,
	}
}
