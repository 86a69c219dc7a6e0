package discovery

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Index finds the providers of objects. Every error carries an outcome. Its methods may be
// called from any goroutine.
type Index interface {
	// Cached returns the answer to Resolve when the node remembers it. ok is false when
	// Resolve would have to look for it. It does not wait.
	Cached(root b3.Root, q api.Query) (a api.Resolved, ok bool, err error)
	// Resolve finds the providers of an object, the best first and at least one.
	Resolve(ctx context.Context, root b3.Root, q api.Query) (api.Resolved, error)
	// CachedName returns the answer to ResolveName when the node remembers it. It does not
	// wait.
	CachedName(name string, q api.Query) (a api.Resolved, ok bool)
	// ResolveName finds what a name, LABEL.ZONE, stands for, and providers of that, if there
	// are any.
	ResolveName(ctx context.Context, name string, q api.Query) (api.Resolved, error)
}

// Permits limit the requests that ask the network.
type Permits interface {
	// AcquireFetch waits for a permit. It returns busy if too many requests wait already.
	// The caller calls leave.
	AcquireFetch(ctx context.Context, w *exchange.Response) (leave func(), err error)
}

// Handlers serve /resolve and /providers. Their methods may be called from any goroutine.
type Handlers struct {
	index    Index
	permits  Permits
	denylist policy.Filter
}

// New returns the handlers.
func New(index Index, permits Permits, denylist policy.Filter) *Handlers {
	return &Handlers{index: index, permits: permits, denylist: denylist}
}

// resolve serves /resolve/{key}.
func (h *Handlers) resolve(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if name, err := url.PathUnescape(in.Rest); err == nil && strings.Contains(name, ".") {
		a, err := h.answerName(w, r, in, name)
		if err != nil {
			return err
		}
		return h.send(w, r, in, &a, &a)
	}
	a := resolvedPool.Get().(*api.Resolved)
	defer func() {
		*a = api.Resolved{}
		resolvedPool.Put(a)
	}()
	done, err := h.answer(w, r, in, "/resolve/", false, a)
	if done || err != nil {
		return err
	}
	return h.send(w, r, in, a, a)
}

// resolvedPool and bodyPool spare the garbage collector a kilobyte for each remembered answer.
var (
	resolvedPool = sync.Pool{New: func() any { return new(api.Resolved) }}
	bodyPool     = sync.Pool{New: func() any { return new([]byte) }}
)

// maxPooledBody bounds the buffers in bodyPool. 32 providers take about 16 KiB.
const maxPooledBody = 16 << 10

// providers serves /providers/{b3}.
func (h *Handlers) providers(w *exchange.Response, r *http.Request, in exchange.Input) error {
	var a api.Resolved
	done, err := h.answer(w, r, in, "/providers/", true, &a)
	if done || err != nil {
		return err
	}
	return h.send(w, r, in, &a, &api.Providers{
		Key: a.Key, Providers: a.Providers, Source: a.Source, AgeMS: a.AgeMS, LookupID: a.LookupID,
	})
}

// answer fills a with the answer to a request below the path prefix. done reports that it has
// redirected the request to the address in its one form.
func (h *Handlers) answer(
	w *exchange.Response, r *http.Request, in exchange.Input, prefix string, all bool, a *api.Resolved,
) (done bool, err error) {
	root, canonical, err := exchange.ParseObject(in.Rest)
	switch {
	case canonical != "":
		return true, w.Redirect(r, http.StatusPermanentRedirect, prefix+canonical)
	case err != nil:
		return false, err
	}
	w.Root = root
	if err := h.denylist.Object(root); err != nil {
		return false, err
	}
	q, err := in.Query.Lookup()
	if err != nil {
		return false, err
	}
	q.All = all
	if !q.Fresh {
		var ok bool
		if *a, ok, err = h.index.Cached(root, q); ok {
			return false, cannotFind(w, root, err)
		}
	}
	w.ReleaseAdmission()
	leave, err := h.permits.AcquireFetch(r.Context(), w)
	if err != nil {
		return false, err
	}
	defer leave()
	*a, err = h.index.Resolve(r.Context(), root, q)
	return false, cannotFind(w, root, err)
}

// answerName finds the answer to a request for a name.
func (h *Handlers) answerName(
	w *exchange.Response, r *http.Request, in exchange.Input, name string,
) (a api.Resolved, err error) {
	q, err := in.Query.Lookup()
	if err != nil {
		return a, err
	}
	if !q.Fresh {
		q.MaxStale = max(q.MaxStale, exchange.MaxStale(r))
		if a, ok := h.index.CachedName(name, q); ok {
			return a, nil
		}
	}
	w.ReleaseAdmission()
	leave, err := h.permits.AcquireFetch(r.Context(), w)
	if err != nil {
		return a, err
	}
	defer leave()
	a, err = h.index.ResolveName(r.Context(), name, q)
	return a, w.LookupFailed(fmt.Sprintf("resolve the name %q", exchange.Clip(name)), err)
}

// cannotFind returns err as a sentence that says what failed.
func cannotFind(w *exchange.Response, root b3.Root, err error) error {
	if err == nil {
		return nil
	}
	return w.LookupFailed("find "+shorten(root), err)
}

// shorten returns the first 8 digits of an address: "b3:1a2b3c4d…".
func shorten(r b3.Root) string { return r.String()[:len("b3:")+8] + "…" }

// appender writes itself as JSON.
type appender interface{ AppendJSON(b []byte) []byte }

// send sends body, which is made of the answer a.
func (h *Handlers) send(
	w *exchange.Response, r *http.Request, in exchange.Input, a *api.Resolved, body appender,
) error {
	w.LookupID, _ = status.ParseLookupID(a.LookupID)
	etag := tag(a)
	outcome := exchange.Evaluate(r, etag)
	if outcome == status.Precondition {
		return exchange.IfMatchFailed(etag)
	}
	header, cached := w.Header(), "no-store"
	if !in.Query.Flag("fresh") {
		cached = "public, max-age=" + strconv.FormatInt(a.TTLMS/1000, 10)
	}
	if a.Stale {
		header["Age"] = []string{strconv.FormatInt(a.AgeMS/1000, 10)}
	}
	header["Etag"], header["Cache-Control"] = w.HeaderValue(etag), w.HeaderValue(cached) // canonical keys
	if outcome == status.NotModified {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	buf := bodyPool.Get().(*[]byte)
	p := append(body.AppendJSON((*buf)[:0]), '\n')
	err := w.Send(r, http.StatusOK, exchange.MediaJSON, p)
	if err == nil && cap(p) <= maxPooledBody { // after an error HTTP/2 may still read p
		*buf = p
		bodyPool.Put(buf)
	}
	return err
}

// tag returns the entity tag of an answer. It is weak: answers that name the same
// providers in the same order, with the same records, have the same tag, whatever their
// age. So do answers for a name with the same records.
func tag(a *api.Resolved) string {
	h := uint64(fnvOffset)
	for i := range a.Chain {
		h = mix(mix(h, a.Chain[i].Name), a.Chain[i].Value)
		h = (h ^ a.Chain[i].Seq) * fnvPrime
	}
	for i := range a.Providers {
		p := &a.Providers[i]
		h = mix(mix(mix(h, p.ID), p.Source), p.Region)
		h = (h ^ uint64(p.NotAfter.Unix())) * fnvPrime
	}
	var b [len(`W/""`) + 16]byte
	return string(append(strconv.AppendUint(append(b[:0], `W/"`...), h, 16), '"'))
}

// The constants of FNV-1a with 64 bits. hash/fnv would copy each string.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// mix adds s, and its end, to the hash h.
func mix(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime
}
