package resolver

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
)

// batch is objects of a tree that are asked for in one request.
type batch struct {
	t    *tree
	refs []manifest.Ref
	done []bool // by place in refs
	left int
	dirs []cursor // the directories among them, as they came
}

// fetch gets all objects: from the tree's sources, and what those do not have
// from the objects' own providers.
func (b *batch) fetch(ctx context.Context) error {
	tried := newTried()
	err := b.fetchFrom(ctx, b.t.src, tried)
	for err != nil && !isFinal(err) && ctx.Err() == nil {
		// Whoever has the first of the rest may have the others.
		first, left := b.first(), b.left
		src := b.t.r.newSources(b.t.life, first.Root, Sources{Peers: b.t.from.Peers, Via: b.t.root})
		err = b.fetchFrom(ctx, src, tried)
		src.close()
		if b.left == left {
			return err
		}
	}
	return err
}

func (b *batch) fetchFrom(ctx context.Context, src *sources, tried *tried) error {
	return b.t.r.overSources(ctx, src, job{
		root: b.first().Root, lookupID: b.t.lookupID, tried: tried, attempt: b.attempt,
	})
}

// first is the first object that is missing.
func (b *batch) first() manifest.Ref { return b.refs[slices.Index(b.done, false)] }

// attempt asks p for what is missing.
func (b *batch) attempt(ctx context.Context, p peer.ID) (progress bool, err error) {
	before := b.left
	s := &batchSink{b: b, ctx: ctx}
	var roots []b3.Root
	for i, ref := range b.refs {
		if !b.done[i] {
			s.places = append(s.places, i)
			roots = append(roots, ref.Root)
		}
	}
	err = b.t.r.get(ctx, p, object.GetRequest{Objs: roots}, s, func() {})
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

// store takes one whole object, verified.
func (b *batch) store(ctx context.Context, i int, p []byte) error {
	ref := b.refs[i]
	var dir *manifest.Node
	if ref.Manifest {
		var err error
		if dir, err = manifest.Decode(p); err != nil {
			return final(malformed(ref.Root, err))
		}
	}
	if err := b.t.r.local.Put(ctx, ref.Root, p); err != nil {
		return final(err)
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
	return status.Errorf(status.BadRequest, "resolver: %s is named as a directory and is none: %w", root, err)
}

// batchSink takes the answer to a batch. An object of one group is stored from
// the client's buffer, a larger one (≤ maxBatched) is put together in memory.
type batchSink struct {
	b      *batch
	ctx    context.Context
	places []int // in batch.refs, of the objects asked for
	buf    []byte
	end    error // why an object is missing
}

// Begin implements object.Sink. An object whose size is not what its directory
// says is not taken, whoever of the two is wrong: memory and batches are
// planned by it.
func (s *batchSink) Begin(i int, size int64) error {
	ref := s.b.refs[s.places[i]]
	if size != ref.Size {
		return status.Errorf(status.Corrupt, "%s is said to have %d bytes, its directory says %d", ref.Root, size, ref.Size)
	}
	s.buf = s.buf[:0]
	return nil
}

// Item implements object.Sink.
func (s *batchSink) Item(i int, p b3.Proved) error {
	if p.IsParent() {
		return nil
	}
	whole := p.Data()
	s.b.t.r.m.treeBytes.Add(float64(len(whole)))
	place := s.places[i]
	if s.b.refs[place].Size > b3.GroupSize {
		s.buf = append(s.buf, whole...)
		whole = s.buf
	}
	if int64(len(whole)) < s.b.refs[place].Size {
		return nil
	}
	return s.b.store(s.ctx, place, whole)
}

// End implements object.Sink.
func (s *batchSink) End(_ int, err error) error {
	if err != nil {
		s.end = err
	}
	return nil
}

// fetchLarge fetches a file by itself.
func (t *tree) fetchLarge(ctx context.Context, ref manifest.Ref) error {
	from := Sources{Peers: t.from.Peers, Via: t.root}
	w, err := t.r.join(ctx, t.life, ref.Root, Whole(from), true, t.lookupID)
	if err != nil {
		return err
	}
	defer w.leave()
	size, err := w.sized()
	if err != nil {
		return err
	}
	if size >= 0 && size != ref.Size {
		return status.Errorf(status.BadRequest, "resolver: %s has %d bytes, its directory says %d", ref.Root, size, ref.Size)
	}
	var seen int64
	err = w.land(func(p Progress) {
		t.bytes.Add(p.Bytes - seen)
		seen = p.Bytes
	})
	if err != nil {
		return err
	}
	t.objects.Add(1)
	t.bytes.Add(ref.Size - seen)
	if size >= 0 { // else it had become local
		t.came(w.t)
	}
	return nil
}

// rootSink takes a root of which nothing is known, in memory when it is no
// larger than a manifest.
type rootSink struct {
	buf    []byte
	size   int64
	proved bool
	end    error
}

// errLarge stops an answer that is too large to be a manifest.
var errLarge = status.Errorf(status.BodyCap, "resolver: too large for a directory")

// Begin implements object.Sink.
func (s *rootSink) Begin(int, int64) error {
	s.buf, s.proved = []byte{}, false
	return nil
}

// Item implements object.Sink.
func (s *rootSink) Item(_ int, p b3.Proved) error {
	switch {
	case p.IsParent():
	case s.proved:
		s.buf = append(s.buf, p.Data()...)
	case p.SizeProved():
		s.size, s.proved = p.Size(), true
		if s.size > manifest.MaxNode {
			return final(errLarge)
		}
	}
	return nil
}

// End implements object.Sink.
func (s *rootSink) End(_ int, err error) error {
	s.end = err
	return nil
}

// askRoot gets the root from a peer; nil when it is larger than a manifest.
func (t *tree) askRoot(ctx context.Context) (root []byte, err error) {
	err = t.r.overSources(ctx, t.src, job{
		root: t.root, lookupID: t.lookupID, tried: newTried(),
		attempt: func(ctx context.Context, p peer.ID) (bool, error) {
			s := &rootSink{}
			err := t.r.get(ctx, p, object.GetRequest{Objs: []b3.Root{t.root}, SizeProof: true}, s, func() {})
			switch {
			case s.proved && int64(len(s.buf)) == s.size:
				root = s.buf
				t.sent(p)
				t.r.served.Add(t.root, p)
				return true, nil
			case err == nil && s.end != nil:
				err = s.end
			case err == nil:
				err = status.Errorf(status.Upstream, "the answer ended early")
			}
			return false, err
		},
	})
	if isFinal(err) && status.Of(err) == status.BodyCap {
		return nil, nil
	}
	return root, err
}
