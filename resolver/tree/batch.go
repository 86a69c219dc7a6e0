package tree

import (
	"context"
	"slices"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// batch is a set of objects that one request asks for.
type batch struct {
	t    *tree
	refs []manifest.Ref

	mu   sync.Mutex // attempts run at once; lock: leaf
	done []bool     // by index in refs
	dirs []cursor   // the received directories, in the order of arrival
}

// fetch gets all objects from the tree's sources. Objects that those lack come from
// their own providers.
func (b *batch) fetch(ctx context.Context) error {
	j := job{t: b.t, from: &supply{t: b.t, first: b.first, own: true}, attempt: b.attempt}
	err := j.run(ctx)
	if err != nil && ctx.Err() == nil {
		b.noteFailures(err)
	}
	return err
}

// noteFailures records the missing objects, which failed with err.
func (b *batch) noteFailures(err error) {
	for i, ref := range b.refs {
		if !b.done[i] {
			b.t.trace.Failure(trace.Failure{Root: ref.Root}, err)
		}
	}
}

// first returns the first missing object, or the zero root.
func (b *batch) first() b3.Root {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.done, false); i >= 0 {
		return b.refs[i].Root
	}
	return b3.Root{}
}

// missing returns the objects that are missing, and their indexes in refs.
func (b *batch) missing() (roots []b3.Root, indexes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, ref := range b.refs {
		if !b.done[i] {
			roots, indexes = append(roots, ref.Root), append(indexes, i)
		}
	}
	return roots, indexes
}

// has reports whether the object with an index in refs is here.
func (b *batch) has(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done[i]
}

// attempt asks a peer for the missing objects.
func (b *batch) attempt(ctx context.Context, a *asking) (progress bool, err error) {
	s := &batchSink{b: b, asking: a}
	var roots []b3.Root
	if roots, s.indexes = b.missing(); len(roots) == 0 {
		return false, nil
	}
	from := a.source()
	s.asked = newAsked(b.t.trace, from, len(roots))
	defer func() { s.asked.ended(s.bytes, err) }()
	err = b.t.f.pool.Get(b.t.trace.Context(ctx), from, object.GetRequest{Objs: roots}, s, s.asked.sent)
	if s.stored {
		b.t.peers.add(from)
		b.t.f.pool.Served(b.t.root, from)
	}
	switch {
	case b.first().IsZero():
		return s.stored, nil
	case err == nil && s.end != nil:
		err = s.end
	case err == nil:
		err = status.Errorf(status.Upstream, "the answer ended early")
	}
	return s.stored, err
}

// store puts a whole, verified object into the store, unless another peer has sent it meanwhile.
func (b *batch) store(ctx context.Context, i int, p []byte) (first bool, err error) {
	if b.has(i) {
		return false, nil
	}
	ref := b.refs[i]
	var below []manifest.Ref
	if ref.Manifest {
		if below, err = manifest.Refs(p); err != nil {
			return false, providers.Final(malformed(ref.Root, err))
		}
	}
	if err := b.t.f.local.Put(ctx, ref.Root, p); err != nil {
		return false, providers.Final(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[i] {
		return false, nil
	}
	if ref.Manifest {
		b.dirs = append(b.dirs, cursor{root: ref.Root, refs: below})
	}
	b.done[i] = true
	b.t.count.got(ctx, ref.Size)
	return true, nil
}

func malformed(root b3.Root, err error) error {
	return status.Errorf(status.BadRequest, "%s should be a directory and is malformed: %w", root, err)
}

// batchSink receives the answer to a batch. An object of one group is stored from
// the client's buffer. A larger one (≤ maxBatched) is assembled in memory.
type batchSink struct {
	b       *batch
	asking  *asking
	asked   *asked
	indexes []int // of the requested objects, in batch.refs
	buf     []byte
	bytes   int64 // received
	stored  bool  // an object that was missing
	end     error // why an object is missing
}

// Begin implements [object.Sink]. It refuses an object whose size differs from the
// one in its directory, because memory and batches are planned by that size.
func (s *batchSink) Begin(i int, size int64) error {
	s.asked.answered()
	s.asking.heard()
	ref := s.b.refs[s.indexes[i]]
	if size != ref.Size {
		return status.Errorf(status.Corrupt, "the provider says that %s has %d bytes, its directory says %d",
			ref.Root, size, ref.Size)
	}
	s.buf = s.buf[:0]
	return nil
}

// Item implements [object.Sink].
func (s *batchSink) Item(i int, p b3.Proved) error {
	if p.IsParent() {
		return nil
	}
	s.asking.heard()
	whole := p.Data()
	s.b.t.f.received.Add(float64(len(whole)))
	s.bytes += int64(len(whole))
	index := s.indexes[i]
	if s.b.refs[index].Size > b3.GroupSize {
		s.buf = append(s.buf, whole...)
		whole = s.buf
	}
	if int64(len(whole)) < s.b.refs[index].Size {
		return nil
	}
	first, err := s.b.store(s.asking.round, index, whole)
	s.stored = s.stored || first
	return err
}

// End implements [object.Sink].
func (s *batchSink) End(_ int, err error) error {
	if err != nil {
		s.end = err
	}
	return nil
}

// fetchLarge fetches a large file by a separate transfer with its own record.
func (t *tree) fetchLarge(ctx context.Context, ref manifest.Ref) (err error) {
	var lookup status.LookupID
	defer func() {
		if err != nil && ctx.Err() == nil {
			t.trace.Failure(trace.Failure{Root: ref.Root, Lookup: lookup}, err)
		}
	}()
	from := providers.Sources{Peers: t.from.Peers, Via: t.root}
	w, err := t.f.transfers.JoinWhole(ctx, t.tasks, ref.Root, from, t.trace)
	if err != nil {
		return err
	}
	defer w.Leave()
	lookup = w.LookupID()
	size, err := w.Size()
	if err != nil {
		return err
	}
	if size >= 0 && size != ref.Size {
		return status.Errorf(status.BadRequest, "%s has %d bytes, its directory says %d", ref.Root, size, ref.Size)
	}
	var seen int64
	_, err = w.Wait(func(p transfer.Progress) {
		t.count.bytes.Add(p.Bytes - seen)
		seen = p.Bytes
	})
	if err != nil {
		return err
	}
	t.count.here(ref.Size - seen)
	if size >= 0 { // otherwise the file was local
		t.arrived(w, size)
	}
	return nil
}
