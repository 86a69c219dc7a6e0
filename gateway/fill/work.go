package fill

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"allium/gateway/fill/origin"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fill asks the origin of a flight, and stores what it sends. It returns the record of the object that the path is, and
// what keeps that in the store.
func (s *Service) fill(ctx context.Context, f *flight) (r *record, release func(), err error) {
	s.m.running.Inc()
	begun := time.Now()
	defer func() {
		s.m.running.Dec()
		s.m.seconds.Observe(time.Since(begun).Seconds())
	}()
	fillCtx, cancel := context.WithTimeoutCause(ctx, s.longest(), errTooLong)
	defer cancel()
	r, release, err = s.ask(fillCtx, f)
	if err != nil {
		level := slog.LevelInfo
		if o := status.Of(err); o == status.NotFound || o == status.BreakerOpen || origin.Repeated(err) {
			level = slog.LevelDebug // clients may ask for any path, nobody was asked, or the log has it
		}
		s.deps.Log.Log(ctx, level, "a fill failed", "source", f.source.name, "reason", status.Of(err).String(),
			"err", origin.Cause(err))
		return nil, nil, err
	}
	return r, release, nil
}

// errTooLong is the error of a fill that lasted too long.
var errTooLong = status.Errorf(status.Timeout, "the file takes too long to arrive. Try again later")

// longest returns the longest time of one fill.
func (s *Service) longest() time.Duration {
	p := s.deps.Params
	return p.Longest + time.Duration(int64(s.live.Load().FillBytes)/p.MinRate)*time.Second
}

// ask asks the mirrors of a flight's source until one sends what is expected.
func (s *Service) ask(ctx context.Context, f *flight) (*record, func(), error) {
	src := f.source
	old, keepOld, err := s.copyOf(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	defer func() { keepOld() }()
	req := src.request(f.path, old)
	for {
		a, err := src.client.Get(ctx, req)
		if err != nil {
			s.noteMissing(ctx, f, err)
			return nil, nil, err
		}
		if a.Current {
			r := s.live.Load().recordOf(a, old.root, old.size, s.now())
			r.etag, r.lastModified = old.etag, old.lastModified
			if !a.Said {
				r.strict = old.strict // what the 304 does not say stays as it was (RFC 9111 §4.3.4)
			}
			s.records.put(ctx, f.key, r)
			kept := keepOld
			keepOld = func() {}
			return r, kept, nil
		}
		r, release, err := s.receive(ctx, f, a)
		if err == nil {
			return r, release, nil
		}
		// Nobody has got a byte of a source with a manifest, so the next mirror may do better.
		if f.expect.root.IsZero() || ctx.Err() != nil || !blames(err) {
			return nil, nil, err
		}
		if status.Of(err) == status.Corrupt {
			src.client.Lied(a.Mirror, f.path)
		}
		if req.Except = append(req.Except, a.Asked...); len(req.Except) >= src.client.Mirrors() {
			return nil, nil, err
		}
		s.deps.Log.Warn("a mirror failed; the next one is asked", "source", src.name, "mirror", a.Mirror,
			"reason", status.Of(err).String(), "err", origin.Cause(err))
	}
}

// blames reports whether another mirror may do better.
func blames(err error) bool {
	switch status.Of(err) {
	case status.Corrupt, status.Upstream, status.Timeout:
		return true
	}
	return false
}

// copyOf returns the record of the copy that a flight may validate, and holds the copy in the store until keep is
// called. The record is nil if there is none. The record of a fresh copy, which another flight brought between the
// request and this one, is validated too.
func (s *Service) copyOf(ctx context.Context, f *flight) (old *record, keep func(), err error) {
	if !f.expect.root.IsZero() {
		return nil, func() {}, nil
	}
	old = s.records.get(ctx, f.key)
	if old == nil || old.root.IsZero() {
		return nil, func() {}, nil
	}
	keep, ok := s.deps.Store.Hold(ctx, old.root)
	if !ok {
		return nil, func() {}, ctx.Err()
	}
	return old, keep, nil
}

// noteMissing remembers for Config.MinFresh that the origin does not have a path.
func (s *Service) noteMissing(ctx context.Context, f *flight, err error) {
	if status.Of(err) == status.NotFound && !errors.Is(err, errOffline) && f.expect.root.IsZero() {
		now := s.now()
		s.records.put(ctx, f.key, &record{fetched: now, freshUntil: now.Add(s.live.Load().MinFresh)})
	}
}

// receive stores the body of an answer. It writes the fill to the audit log before that, and its outcome afterwards.
func (s *Service) receive(ctx context.Context, f *flight, a *origin.Answer) (r *record, release func(), err error) {
	defer a.Body.Close()
	if err := f.source.check(a); err != nil {
		return nil, nil, err
	}
	seq, err := s.auditBegin(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	defer func() { s.auditEnd(ctx, f, seq, r, err) }()
	o := PutOptions{Size: a.Size, Expect: f.expect.root}
	if f.expect.root.IsZero() {
		f.begin(a.Size, s.live.Load().keep(a))
		o.Watch = &f.bytes
	} else if a.Size >= 0 && a.Size != f.expect.size {
		return nil, nil, lied(f)
	}
	stored, release, err := s.deps.Store.Put(ctx, &bodyReader{ctx: ctx, s: s, f: f, from: a.Body}, o)
	switch {
	case a.Body.Failed() != nil: // the store may have wrapped it
		err = a.Body.Failed()
	case err != nil && context.Cause(ctx) == errTooLong: //nolint:errorlint // the very value
		err = errTooLong
	case !f.expect.root.IsZero() && (status.Of(err) == status.BadDigest || status.Of(err) == status.Corrupt):
		err = lied(f)
	}
	if err != nil {
		if release != nil {
			release()
		}
		return nil, nil, err
	}
	r = s.live.Load().recordOf(a, stored.Root, stored.Size, s.now())
	if f.expect.root.IsZero() {
		s.records.put(ctx, f.key, r)
	}
	return r, release, nil
}

// lied returns the error of a mirror that sent other bytes than the manifest names.
func lied(f *flight) error {
	return status.Errorf(status.Corrupt, "cannot fill from the source %s: a mirror sent other bytes than its manifest "+
		"names", f.source.name)
}

// bodyReader reads a body, and ends it at the bytes that a manifest names. Its reads wait for the rate of downloads.
type bodyReader struct {
	ctx  context.Context
	s    *Service
	f    *flight
	from io.Reader
	n    int64
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	p = p[:min(len(p), b3.GroupSize)]
	n, err := b.from.Read(p)
	b.n += int64(n)
	if !b.f.expect.root.IsZero() && (b.n > b.f.expect.size || errors.Is(err, io.EOF) && b.n < b.f.expect.size) {
		return 0, lied(b.f)
	}
	if n == 0 || b.s.deps.Download == nil {
		return n, err
	}
	near := b.f.source.cfg.Private
	if wait := b.s.deps.Download.Wait(b.ctx, "fill "+b.f.source.name, near, n, rateWait); wait != nil {
		return n, wait
	}
	return n, err
}

// rateWait is the longest wait for the rate of downloads: the fill has its own end.
const rateWait = time.Hour

var _ Watch = (*arrival)(nil)
