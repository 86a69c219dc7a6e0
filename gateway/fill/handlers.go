package fill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/fill/origin"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Assets serves the files of sources; see [content.Assets].
type Assets interface {
	// AcquireFetch waits for a permit to ask the network.
	AcquireFetch(ctx context.Context, w *exchange.Response) (leave func(), err error)
	// WantsEncoding reports whether the client asks for the verified encoding.
	WantsEncoding(r *http.Request) (bool, error)
	// Stored serves an object of the store. It returns not_found if the store does not have it.
	Stored(w *exchange.Response, r *http.Request, root b3.Root, name string) error
	// Rest writes the bytes of an object of the store from an offset on.
	Rest(ctx context.Context, root b3.Root, from int64, to io.Writer) error
	// Send sends a file that arrives.
	Send(w *exchange.Response, r *http.Request, f content.Arriving) error
	// Tree serves a file of a directory.
	Tree(w *exchange.Response, r *http.Request, tree content.Tree, path string) error
}

// Handlers serve /edge/assets/. Their methods may be called from any goroutine.
type Handlers struct {
	service *Service
	assets  Assets
}

// NewHandlers returns the handlers of a service. A nil service has no sources.
func NewHandlers(s *Service, a Assets) *Handlers { return &Handlers{s, a} }

// ask is a request for a path of a source.
type ask struct {
	*Handlers
	w      *exchange.Response
	r      *http.Request
	source *source
	path   string // unescaped; may end with a slash
	key    pathKey
	expect expectation // of a source with a manifest
	copy   *record     // of the stored copy; nil: none is known
}

// asset serves /edge/assets/{source}/{path…}.
func (h *Handlers) asset(w *exchange.Response, r *http.Request, in exchange.Input) error {
	name, rest, found := strings.Cut(in.Rest, "/")
	src, err := h.source(name)
	if err != nil {
		return err
	}
	w.Caching = "no-cache" // of redirects
	if !found {
		// Without the slash, the links of the page at the base would lead to other sources.
		return w.Redirect(r, http.StatusMovedPermanently, basePath+name+"/")
	}
	if src.cfg.Key != "" {
		tree := content.Tree{Base: basePath + name, Key: src.cfg.Key, Keep: h.service.live.Load().MaxFresh}
		return h.assets.Tree(w, r, tree, rest)
	}
	file, err := parsePath(rest)
	if err != nil {
		return err
	}
	if src.cfg.Manifest != "" && (file == "" || file[len(file)-1] == '/') {
		file += indexPage // what the manifest names; mirrors may show a list of the directory instead
	}
	a := &ask{Handlers: h, w: w, r: r, source: src, path: file, key: keyOf(src.identity, file)}
	return a.serve()
}

// basePath is the path of all sources.
const basePath = "/edge/assets/"

// source returns the source of an escaped name.
func (h *Handlers) source(escaped string) (*source, error) {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, exchange.BadEscape(err)
	}
	if h.service != nil {
		if src := h.service.live.Load().sources[name]; src != nil {
			return src, nil
		}
	}
	return nil, status.Errorf(status.NotFound,
		"there is no source %q on this node. Its operator configures sources with edge.sources", exchange.Clip(name))
}

// parsePath unescapes a path once. It returns bad_address for a path that package origin refuses, and for one with an
// escaped slash.
func parsePath(escaped string) (string, error) {
	file, err := url.PathUnescape(escaped)
	if err != nil {
		return "", exchange.BadEscape(err)
	}
	if strings.Count(file, "/") != strings.Count(escaped, "/") {
		return "", status.Errorf(status.BadAddress, "the path has an escaped slash. Write it as /")
	}
	return file, origin.CheckPath(file)
}

// name returns the name of the file, by which its content type is known.
func (a *ask) name() string {
	if a.path == "" || strings.HasSuffix(a.path, "/") {
		return indexPage
	}
	return path.Base(a.path)
}

// serve answers from the store if the copy there is fresh, and else from a fill.
func (a *ask) serve() (err error) {
	s := a.service
	if _, err := a.assets.WantsEncoding(a.r); err != nil { // before an origin is asked
		return err
	}
	if err := a.lookUp(); err != nil {
		return err
	}
	now := s.now()
	if a.copy != nil && a.copy.fresh(now) {
		if a.copy.root.IsZero() {
			return status.Errorf(status.NotFound, "cannot fill from the source %s: the origin does not have the file",
				a.source.name)
		}
		if err := a.stored(a.copy.freshUntil.Sub(now)); !a.gone(err) {
			s.m.hits.Inc()
			return err
		}
	}
	if a.source.offline() {
		return a.offline()
	}
	if exchange.OnlyIfCached(a.r) {
		return status.Errorf(status.Precondition, "cannot serve the file: it is not stored here, or it is stale, and "+
			"the request has only-if-cached. Leave that out to ask the source %s", a.source.name)
	}
	s.m.misses.Inc()
	err = a.fill()
	if errors.Is(err, errOffline) && !a.w.Started() { // since the request came
		return a.offline()
	}
	if err == nil || a.w.Started() || !a.mayBeStale() {
		return err
	}
	warning := `111 - "Revalidation Failed"`
	switch slow := err == errSlow; { //nolint:errorlint // the very value
	case slow, status.Of(err) == status.Busy:
		warning = `110 - "Response is Stale"` // the origin has not failed
	case !origin.Failing(err):
		return err
	}
	if stale := a.stale(warning); !a.gone(stale) {
		s.m.stale.Inc()
		return stale
	}
	if err == errSlow { //nolint:errorlint // the very value
		a.copy = nil // there is nothing to serve, so the origin has all its time
		return a.fill()
	}
	return err
}

// errSlow is the error of a fill that a request does not wait for, because it may have a stale copy.
var errSlow = errors.New("the fill is slow")

// lookUp finds what is known of the path: its record, or what the manifest names.
func (a *ask) lookUp() (err error) {
	s, ctx := a.service, a.r.Context()
	if a.source.cfg.Manifest == "" {
		a.copy = s.records.get(ctx, a.key)
		return nil
	}
	a.expect, err = s.expected(ctx, a.source, a.path, func(ctx context.Context) (func(), error) {
		a.w.ReleaseAdmission()
		return a.assets.AcquireFetch(ctx, a.w)
	})
	if err != nil {
		return exchange.CauseOf(ctx, err)
	}
	// The key has the address, so that a fill of what the manifest named before is another one.
	a.key = keyOf(a.source.identity, a.path+"\x00"+a.expect.object.root.String())
	a.copy = &record{
		root: a.expect.object.root, size: a.expect.object.size, fetched: s.now(), freshUntil: a.expect.until,
	}
	return nil
}

// gone reports whether the store has no whole object any more, and nothing was sent.
func (a *ask) gone(err error) bool {
	if err == nil || a.w.Started() {
		return false
	}
	o := status.Of(err)
	return o == status.NotFound || o == status.Corrupt
}

// stored serves the copy in the store, which is fresh for keep.
func (a *ask) stored(keep time.Duration) error {
	a.w.Caching = exchange.MaxAge(keep)
	a.w.Modified = time.Time{}
	if at, err := http.ParseTime(a.copy.lastModified); err == nil && !at.After(a.service.now()) {
		a.w.Modified = at
	}
	return a.assets.Stored(a.w, a.r, a.copy.root, a.name())
}

// stale serves the copy in the store although it is stale.
func (a *ask) stale(warning string) error {
	age := max(0, int64(a.service.now().Sub(a.copy.fetched)/time.Second))
	h := a.w.Header()
	h.Set("Age", strconv.FormatInt(age, 10))
	h.Set("Warning", warning)
	err := a.stored(0)
	if err != nil && !a.w.Started() {
		h.Del("Age")
		h.Del("Warning")
	}
	return err
}

// mayBeStale reports whether the copy may be served although it is no longer fresh.
func (a *ask) mayBeStale() bool {
	return a.copy != nil && !a.copy.root.IsZero() && !a.copy.strict &&
		a.service.now().Before(a.copy.freshUntil.Add(a.service.live.Load().MaxStale))
}

// offline serves the copy in the store, however old it is and whatever its origin says: that is what the mode is for.
func (a *ask) offline() error {
	if a.copy == nil || a.copy.root.IsZero() {
		return errOffline
	}
	err := a.stale(`112 - "Disconnected Operation"`)
	if a.gone(err) {
		return errOffline
	}
	a.service.m.hits.Inc()
	return err
}

// fill waits for the fill of the path, and serves what it brings: as it arrives, or once it is stored. If that takes
// longer than Params.Stale and a stale copy may be served instead, it returns errSlow, and the fill goes on.
func (a *ask) fill() error {
	s := a.service
	a.w.ReleaseAdmission()
	if err := s.waiters.Enter(a.w.From.Group); err != nil {
		return err
	}
	defer s.waiters.Leave(a.w.From.Group)
	event := a.w.Event("asset", a.r)
	event.Op, event.Name, event.Detail = "fill", a.source.name, a.path
	f, err := s.join((&flight{key: a.key, source: a.source, path: a.path, expect: a.expect.object,
		client: a.w.From.Group, event: event, queued: time.Now()}).init())
	if err != nil {
		return err
	}
	defer f.leave()
	ctx := a.r.Context()
	if a.mayBeStale() { // counted from the start of the fill: a client that joins it late waits less
		short, cancel := context.WithDeadlineCause(ctx, f.queued.Add(s.deps.Params.Stale), errSlow)
		defer cancel()
		ctx = short
	}
	streams := a.mayStream()
	now, err := f.wait(ctx, func(now state) bool {
		return streams && now.begun && (a.r.Method == http.MethodHead || f.bytes.arrived() > 0)
	})
	switch {
	case err != nil:
		return err
	case !now.ended:
		return a.send(f, now)
	case now.err != nil:
		return now.err
	}
	a.copy = now.record
	if err = a.stored(now.record.freshUntil.Sub(s.now())); a.gone(err) {
		return status.Errorf(status.NotReady,
			"the file arrived and could not be kept: the store is too small or damaged")
	}
	return err
}

// mayStream reports whether the client may get the file while it arrives: it asks for the whole file, under no
// condition, and would notice if the answer broke off.
func (a *ask) mayStream() bool {
	h := a.r.Header
	for _, name := range []string{"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if len(h[name]) > 0 {
			return false
		}
	}
	encoding, err := a.assets.WantsEncoding(a.r)
	return err == nil && !encoding && a.r.ProtoAtLeast(1, 1) && a.expect.object.root.IsZero()
}

// send sends the file of a flight while it arrives.
func (a *ask) send(f *flight, begun state) error {
	a.w.Caching = exchange.MaxAge(begun.keep)
	return a.assets.Send(a.w, a.r, content.Arriving{
		Name: a.name(), Size: begun.size,
		Copy: func(ctx context.Context, to io.Writer) error { return a.copyTo(ctx, f, to) },
	})
}

// sendBuffers holds *[]byte of one group.
var sendBuffers = sync.Pool{New: func() any { b := make([]byte, b3.GroupSize); return &b }}

// copyTo writes the bytes of a flight as they arrive, and the rest from the store.
func (a *ask) copyTo(ctx context.Context, f *flight, to io.Writer) error {
	buf := sendBuffers.Get().(*[]byte)
	defer sendBuffers.Put(buf)
	for at := int64(0); ; {
		now, err := f.wait(ctx, func(state) bool { return f.bytes.arrived() > at })
		switch {
		case err != nil:
			return err
		case now.ended && now.err != nil:
			return now.err
		case now.ended:
			a.w.Root = now.record.root
			return a.assets.Rest(ctx, now.record.root, at, to)
		}
		n, err := f.bytes.read(*buf, at)
		if err == errClosed { //nolint:errorlint // the very value
			if _, err = f.wait(ctx, func(state) bool { return false }); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read what has arrived: %w", err)
		}
		if _, err := to.Write((*buf)[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
}
