package tree

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/patience"
	"allium/protocols/status"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// count holds the counts of a fetch. The goroutine of the fetch alone uses the fields that are not atomic.
type count struct {
	known, knownBytes     int64 // objects that the tree names
	skipped               int64
	objects, bytes        atomic.Int64 // local objects
	fetched, fetchedBytes atomic.Int64
	resumed               atomic.Int64
}

// found counts an object that the tree names.
func (c *count) found(size int64) {
	c.known++
	c.knownBytes += size
}

// skip counts an object that need not be fetched.
func (c *count) skip(size int64) {
	c.skipped++
	c.here(size)
}

// here counts an object that is local now, and size more bytes. Workers call it too.
func (c *count) here(size int64) {
	c.objects.Add(1)
	c.bytes.Add(size)
}

// got counts an object received from a peer. Workers call it too.
func (c *count) got(ctx context.Context, size int64) {
	patience.Begin(ctx)
	c.here(size)
	c.fetched.Add(1)
	c.fetchedBytes.Add(size)
}

// arrived counts an object that a separate transfer has received. Workers call it too.
func (t *tree) arrived(w *transfer.Waiter, size int64) {
	t.count.fetched.Add(1)
	t.count.fetchedBytes.Add(size - w.Resumed())
	t.count.resumed.Add(w.Resumed())
	for _, p := range w.Senders() {
		t.peers.add(p)
	}
}

// senders records the peers that sent something, and those that were late. Its methods are safe for concurrent use.
type senders struct {
	mu   sync.Mutex // lock: leaf
	sent map[peer.ID]struct{}
	slow map[peer.ID]struct{} // are asked last
}

// add records that p sent something.
func (s *senders) add(p peer.ID) { s.note(&s.sent, p) }

// late lets a source be asked after all others, until it sends something again.
func (s *senders) late(p peer.ID) { s.note(&s.slow, p) }

func (s *senders) note(in *map[peer.ID]struct{}, p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *in == nil {
		*in = map[peer.ID]struct{}{}
	}
	(*in)[p] = struct{}{}
}

// prompt records that a source has sent something.
func (s *senders) prompt(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slow, p)
}

// wasLate reports whether a source is asked after all others.
func (s *senders) wasLate(p peer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, late := s.slow[p]
	return late
}

func (s *senders) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// reportProgress calls the caller's Progress function.
func (t *tree) reportProgress() {
	if t.report == nil {
		return
	}
	t.report(transfer.Progress{
		Objects: t.count.objects.Load(), ObjectsKnown: t.count.known,
		Bytes: t.count.bytes.Load(), BytesKnown: t.count.knownBytes,
		Resumed: t.count.resumed.Load(), Peers: t.peers.count(),
	})
}

func (t *tree) info() Info {
	return Info{
		Root: t.root, Directory: !t.file, LookupID: t.trace.ID(),
		Objects: t.count.known, Bytes: t.count.knownBytes,
		Fetched: t.count.fetched.Load(), FetchedBytes: t.count.fetchedBytes.Load(),
		Resumed: t.count.resumed.Load(), Skipped: t.count.skipped, Peers: t.peers.count(),
	}
}

// record adds the totals to the record of the fetch.
func (t *tree) record() {
	t.trace.Count(trace.Counts{
		Objects: t.count.known, Bytes: t.count.knownBytes, Skipped: t.count.skipped,
		Fetched: t.count.fetched.Load(), FetchedBytes: t.count.fetchedBytes.Load(),
	})
}

// noteLocal records what the store said of the root.
func (t *tree) noteLocal(err error) {
	switch {
	case err == nil:
		t.trace.Step(trace.Step{Source: trace.Store, Verdict: trace.Hit})
	case status.Of(err) == status.NotFound:
		t.trace.Step(trace.Step{Source: trace.Store, Verdict: trace.Miss})
	default:
		t.trace.Failed(trace.Store, 0, err)
	}
}
