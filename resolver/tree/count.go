package tree

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/patience"
	"allium/protocols/status"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// found counts an object that the tree names.
func (t *tree) found(size int64) {
	t.known++
	t.knownBytes += size
}

// skip counts an object that need not be fetched.
func (t *tree) skip(size int64) {
	t.skipped++
	t.objects.Add(1)
	t.bytes.Add(size)
}

// got counts an object received from a peer. Workers call it too.
func (t *tree) got(ctx context.Context, size int64) {
	patience.Begin(ctx)
	t.objects.Add(1)
	t.bytes.Add(size)
	t.fetched.Add(1)
	t.fetchedBytes.Add(size)
}

// arrived counts an object that a separate transfer has received. Workers call it too.
func (t *tree) arrived(w *transfer.Waiter, size int64) {
	t.fetched.Add(1)
	t.fetchedBytes.Add(size - w.Resumed())
	t.resumed.Add(w.Resumed())
	for _, p := range w.Senders() {
		t.sent(p)
	}
}

// sent records that p sent something. Workers call it too.
func (t *tree) sent(p peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers == nil {
		t.peers = map[peer.ID]struct{}{}
	}
	t.peers[p] = struct{}{}
}

// late lets a source be asked after all others, until it sends something again. Workers call it too.
func (t *tree) late(p peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lateOnes == nil {
		t.lateOnes = map[peer.ID]struct{}{}
	}
	t.lateOnes[p] = struct{}{}
}

// prompt records that a source has sent something. Workers call it too.
func (t *tree) prompt(p peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lateOnes, p)
}

// wasLate reports whether a source is asked after all others. Workers call it too.
func (t *tree) wasLate(p peer.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, late := t.lateOnes[p]
	return late
}

func (t *tree) peerCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// reportProgress calls the caller's Progress function.
func (t *tree) reportProgress() {
	if t.report == nil {
		return
	}
	t.report(transfer.Progress{
		Objects: t.objects.Load(), ObjectsKnown: t.known,
		Bytes: t.bytes.Load(), BytesKnown: t.knownBytes,
		Resumed: t.resumed.Load(), Peers: t.peerCount(),
	})
}

func (t *tree) info() Info {
	return Info{
		Root: t.root, Directory: !t.file, LookupID: t.trace.ID(),
		Objects: t.known, Bytes: t.knownBytes,
		Fetched: t.fetched.Load(), FetchedBytes: t.fetchedBytes.Load(),
		Resumed: t.resumed.Load(), Skipped: t.skipped, Peers: t.peerCount(),
	}
}

// record adds the totals to the record of the fetch.
func (t *tree) record() {
	t.trace.Count(trace.Counts{
		Objects: t.known, Bytes: t.knownBytes, Fetched: t.fetched.Load(), FetchedBytes: t.fetchedBytes.Load(),
		Skipped: t.skipped,
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
