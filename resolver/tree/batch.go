package tree

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

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
	done []bool   // by index in refs
	left int      // refs that are not done
	dirs []cursor // the received directories, in the order of arrival
}

// fetch gets all objects from the tree's sources. Objects that those lack come from
// their own providers.
func (b *batch) fetch(ctx context.Context) error {
	rest := job{attempts: &providers.Attempts{}, lost: map[peer.ID]bool{}}
	err := b.fetchFrom(ctx, b.t.src, rest)
	for err != nil && !providers.IsFinal(err) && ctx.Err() == nil {
		// A provider of the first missing object may have the others.
		first, left := b.first(), b.left
		from := providers.Sources{Peers: b.t.from.Peers, Via: b.t.root}
		src := b.t.f.pool.Candidates(b.t.tasks, first.Root, from).Record(b.t.trace)
		err = b.fetchFrom(ctx, src, rest)
		src.Close()
		if b.left == left {
			break
		}
	}
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

func (b *batch) fetchFrom(ctx context.Context, src *providers.Candidates, j job) error {
	j.root, j.trace, j.attempt = b.first().Root, b.t.trace, b.attempt
	return b.t.f.overSources(ctx, src, j)
}

// first returns the first missing object.
func (b *batch) first() manifest.Ref { return b.refs[slices.Index(b.done, false)] }

// attempt asks p for the missing objects.
func (b *batch) attempt(ctx context.Context, p peer.ID) (progress bool, err error) {
	before := b.left
	asked := asking(b.t.trace, p, before)
	s := &batchSink{b: b, ctx: ctx, asked: asked}
	defer func() { asked.ended(s.bytes, err) }()
	var roots []b3.Root
	for i, ref := range b.refs {
		if !b.done[i] {
			s.indexes = append(s.indexes, i)
			roots = append(roots, ref.Root)
		}
	}
	err = b.t.f.pool.Get(ctx, p, object.GetRequest{Objs: roots}, s, asked.sent)
	if b.left < before {
		b.t.sent(p)
	}
	switch {
	case b.left == 0:
		return true, nil
	case err == nil && s.end != nil:
		err = s.end
	case err == nil:
		err = status.Errorf(status.Upstream, "the answer ended early")
	}
	return b.left < before, err
}

// store puts a whole, verified object into the store.
func (b *batch) store(ctx context.Context, i int, p []byte) error {
	ref := b.refs[i]
	var dir *manifest.Node
	if ref.Manifest {
		var err error
		if dir, err = manifest.Decode(p); err != nil {
			return providers.Final(malformed(ref.Root, err))
		}
	}
	if err := b.t.f.local.Put(ctx, ref.Root, p); err != nil {
		return providers.Final(err)
	}
	if dir != nil {
		b.dirs = append(b.dirs, cursor{root: ref.Root, refs: dir.Refs()})
	}
	b.done[i] = true
	b.left--
	b.t.got(ref.Size)
	return nil
}

func malformed(root b3.Root, err error) error {
	return status.Errorf(status.BadRequest, "%s should be a directory and is malformed: %w", root, err)
}

// batchSink receives the answer to a batch. An object of one group is stored from
// the client's buffer. A larger one (≤ maxBatched) is assembled in memory.
type batchSink struct {
	b       *batch
	ctx     context.Context
	asked   *asked
	indexes []int // of the requested objects, in batch.refs
	buf     []byte
	bytes   int64 // received
	end     error // why an object is missing
}

// Begin implements [object.Sink]. It refuses an object whose size differs from the
// one in its directory, because memory and batches are planned by that size.
func (s *batchSink) Begin(i int, size int64) error {
	s.asked.answered()
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
	return s.b.store(s.ctx, index, whole)
}

// End implements [object.Sink].
func (s *batchSink) End(_ int, err error) error {
	if err != nil {
		s.end = err
	}
	return nil
}

// fetchLarge fetches a large file by a transfer of its own, which has a record of its
// own.
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
		t.bytes.Add(p.Bytes - seen)
		seen = p.Bytes
	})
	if err != nil {
		return err
	}
	t.objects.Add(1)
	t.bytes.Add(ref.Size - seen)
	if size >= 0 { // otherwise the file was local
		t.arrived(w, size)
	}
	return nil
}
