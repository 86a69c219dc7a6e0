package fill

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/status"
)

// expectations remembers what manifests name. It is safe for concurrent use.
type expectations struct {
	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[string, expectation]
}

// expectation is the object that a manifest names, until the manifest has to be asked again.
type expectation struct {
	object expected
	until  time.Time
}

func (e *expectations) get(key string, now time.Time) (x expectation, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok = e.lru.Get(key)
	return x, ok && now.Before(x.until)
}

func (e *expectations) put(key string, x expectation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lru.Add(key, x)
}

// indexPage is the file that stands for a directory.
const indexPage = "index.html"

// expected returns the object that the manifest of a source names at a path, and for how long that holds. admit waits
// for a permit to ask the network, and is called only if the answer is not remembered.
func (s *Service) expected(
	ctx context.Context, src *source, path string, admit func(context.Context) (leave func(), err error),
) (x expectation, err error) {
	key := src.name + "\x00" + path
	now := s.now()
	if x, ok := s.expect.get(key, now); ok {
		return x, nil
	}
	leave, err := admit(ctx)
	if err != nil {
		return x, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, s.deps.Params.Lookup, errManifest)
	defer cancel()
	ctx, end := src.life.Within(ctx)
	defer end()
	ctx, span := s.deps.Tracer.Begin(ctx, "manifest")
	defer func() { span.End(err) }()
	file, keep, err := s.deps.Manifests.Lookup(ctx, src.cfg.Manifest, path, src.offline())
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errOffline):
		return x, errOffline
	case err != nil && context.Cause(ctx) == errManifest: //nolint:errorlint // the very value
		return x, errManifest
	case err != nil:
		return x, err
	case file.Size > int64(s.live.Load().FillBytes):
		return x, status.Errorf(status.Upstream,
			"cannot fill from the source %s: the file has %d bytes, more than the %d of edge.fill_bytes", src.name,
			file.Size, int64(s.live.Load().FillBytes))
	}
	cfg := s.live.Load()
	x = expectation{expected{root: file.Root, size: file.Size}, now.Add(max(cfg.MinFresh, min(keep, cfg.MaxFresh)))}
	s.expect.put(key, x)
	x.object.span = span
	return x, nil
}

// errManifest is the error of a lookup in a manifest that lasts too long.
var errManifest = status.Errorf(status.Timeout, "the manifest of the source cannot be read in time. Try again later")
