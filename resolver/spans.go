package resolver

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// The bytes asked for at once when a range is read without keeping the object.
// The first span is small, so that the first byte comes soon; each is twice the
// one before.
const (
	firstSpan = 4 * b3.GroupSize
	maxSpan   = 2 << 20
)

// spans reads groups in order, one span after the other: the next is asked for
// when the reader has come to the end of the one before, so a slow reader
// occupies memory from Config.RangeBytes but no stream.
type spans struct {
	r        *Resolver
	root     b3.Root
	lookupID string
	src      *sources
	tried    *tried

	size int64
	end  int64 // groups of the range end before this one

	first int64  // group at the front of buf
	n     int64  // groups in buf, all verified
	buf   []byte // as long as the budget holds bytes
}

func (s *spans) read(ctx context.Context, g int64, _ []byte) ([]byte, error) {
	if g < s.first || g >= s.first+s.n {
		if err := s.fetch(ctx, g); err != nil {
			return nil, err
		}
	}
	at := (g - s.first) * b3.GroupSize
	return s.buf[at:min(at+b3.GroupSize, s.size-s.first*b3.GroupSize)], nil
}

// fetch replaces the span by the one that begins with g.
func (s *spans) fetch(ctx context.Context, g int64) error {
	bytes := min(max(2*int64(len(s.buf)), firstSpan), maxSpan)
	want := min(bytes/b3.GroupSize, s.end-g)
	s.drop()
	bytes = want * b3.GroupSize
	if err := s.r.rangeBytes.Acquire(ctx, bytes); err != nil {
		return err
	}
	s.buf, s.first, s.n = make([]byte, bytes), g, 0
	return s.r.overSources(ctx, s.src, job{
		root: s.root, lookupID: s.lookupID, tried: s.tried,
		attempt: func(ctx context.Context, p peer.ID) (bool, error) { return s.attempt(ctx, p, want) },
	})
}

// attempt asks p for what the span still misses.
func (s *spans) attempt(ctx context.Context, p peer.ID, want int64) (progress bool, err error) {
	before := s.n
	sink := &spanSink{s: s, want: want}
	err = s.r.get(ctx, p, object.GetRequest{
		Objs:   []b3.Root{s.root},
		Ranges: []b3.Range{{Start: (s.first + s.n) * b3.GroupSize, End: min((s.first+want)*b3.GroupSize, s.size)}},
	}, sink)
	switch {
	case s.n == want:
		return true, nil
	case err == nil && sink.end != nil:
		err = sink.end
	case err == nil:
		err = status.Errorf(status.Upstream, "the answer ended early")
	}
	return s.n > before, err
}

// drop gives the span's memory back.
func (s *spans) drop() {
	if s.buf != nil {
		s.r.rangeBytes.Release(int64(len(s.buf)))
		s.buf, s.n = nil, 0
	}
}

func (s *spans) close() {
	s.drop()
	s.src.close()
}

// spanSink takes one answer.
type spanSink struct {
	s    *spans
	want int64
	end  error
}

// Begin implements object.Sink.
func (k *spanSink) Begin(_ int, size int64) error {
	if size != k.s.size {
		return status.Errorf(status.Corrupt, "%d bytes are claimed, %d were proved", size, k.s.size)
	}
	return nil
}

// Item implements object.Sink.
func (k *spanSink) Item(_ int, p b3.Proved) error {
	if p.IsParent() {
		return nil
	}
	s := k.s
	if p.Group() != s.first+s.n || s.n == k.want {
		return status.Errorf(status.Upstream, "group %d came in place of %d", p.Group(), s.first+s.n)
	}
	copy(s.buf[s.n*b3.GroupSize:], p.Data())
	s.n++
	s.r.m.rangeBytes.Add(float64(len(p.Data())))
	return nil
}

// End implements object.Sink.
func (k *spanSink) End(_ int, err error) error {
	k.end = err
	return nil
}

// proveSize asks for the proof of the size and for nothing else.
func (s *spans) proveSize(ctx context.Context) (size int64, err error) {
	err = s.r.overSources(ctx, s.src, job{
		root: s.root, lookupID: s.lookupID, tried: s.tried,
		attempt: func(ctx context.Context, p peer.ID) (bool, error) {
			sink := &sizeSink{}
			err := s.r.get(ctx, p, object.GetRequest{
				Objs: []b3.Root{s.root}, SizeProof: true, Ranges: []b3.Range{{}},
			}, sink)
			switch {
			case sink.proved:
				size = sink.size
				return true, nil
			case err == nil && sink.end != nil:
				err = sink.end
			case err == nil:
				err = status.Errorf(status.Upstream, "the answer ended before the proof of the size")
			}
			return false, err
		},
	})
	return size, err
}

// sizeSink waits for the last group.
type sizeSink struct {
	size   int64
	proved bool
	end    error
}

// Begin implements object.Sink.
func (k *sizeSink) Begin(int, int64) error { return nil }

// Item implements object.Sink.
func (k *sizeSink) Item(_ int, p b3.Proved) error {
	if p.SizeProved() {
		k.size, k.proved = p.Size(), true
	}
	return nil
}

// End implements object.Sink.
func (k *sizeSink) End(_ int, err error) error {
	k.end = err
	return nil
}
