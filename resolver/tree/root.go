package tree

import (
	"context"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/providers"
)

// rootSink receives a root of unknown size and kind into memory, if it is no larger
// than a manifest can be.
type rootSink struct {
	asking *asking
	asked  *asked
	buf    []byte
	size   int64
	proved bool
	end    error
}

// rootHead is the number of bytes of a root that are asked for with the proof of its size. Most directories have no
// more. If the root is a file, which is fetched another way, few bytes are sent in vain, also over a slow link.
const rootHead = 2 * b3.GroupSize

// errLarge ends an answer that is too large for a manifest.
var errLarge = status.Errorf(status.BodyCap, "the object is too large for a directory")

// Begin implements [object.Sink].
func (s *rootSink) Begin(int, int64) error {
	s.asking.heard()
	return nil
}

// Item implements [object.Sink].
func (s *rootSink) Item(_ int, p b3.Proved) error {
	s.asked.answered()
	s.asking.heard()
	switch {
	case p.IsParent():
	case s.proved:
		s.buf = append(s.buf, p.Data()...)
	case p.SizeProved():
		s.size, s.proved = p.Size(), true
		if s.size > manifest.MaxNode {
			return providers.Final(errLarge)
		}
	}
	return nil
}

// End implements [object.Sink].
func (s *rootSink) End(_ int, err error) error {
	s.end = err
	return nil
}

// askRoot gets the root from a peer. It returns nil when the root is larger than a
// manifest can be.
func (t *tree) askRoot(ctx context.Context) (root []byte, err error) {
	var mu sync.Mutex // attempts run at once; lock: leaf
	j := job{
		t: t, from: &supply{t: t, first: func() b3.Root { return t.root }},
		attempt: func(ctx context.Context, a *asking) (bool, error) {
			from := a.source()
			asked := newAsked(t.trace, from, 1)
			s := &rootSink{asked: asked, asking: a, buf: []byte{}}
			want := object.GetRequest{
				Objs: []b3.Root{t.root}, SizeProof: true, Ranges: []b3.Range{{Start: 0, End: rootHead}},
			}
			err := t.f.pool.Get(t.trace.Context(ctx), from, want, s, asked.sent)
			if first := asked.span.First; first > 0 { // a large object is asked for next, of a busy peer little
				t.f.pool.Throughput(from).Answered(first - asked.span.Sent)
			}
			defer func() { asked.ended(int64(len(s.buf)), err) }()
			if err == nil && s.end == nil && s.proved && len(s.buf) == rootHead && s.size > rootHead {
				want.SizeProof, want.Ranges = false, []b3.Range{{Start: rootHead, End: s.size}}
				err = t.f.pool.Get(t.trace.Context(ctx), from, want, s, func() {})
			}
			switch {
			case s.proved && int64(len(s.buf)) == s.size:
				mu.Lock()
				root = s.buf
				mu.Unlock()
				t.peers.add(from)
				t.f.pool.Served(t.root, from)
				return true, nil
			case err == nil && s.end != nil:
				err = s.end
			case err == nil:
				err = status.Errorf(status.Upstream, "the answer ended early")
			}
			return false, err
		},
	}
	err = j.run(ctx)
	if providers.IsFinal(err) && status.Of(err) == status.BodyCap {
		return nil, nil
	}
	return root, err
}
