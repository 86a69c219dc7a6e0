package folder

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"allium/gateway/content"
	"allium/gateway/content/byterange"
	"allium/gateway/exchange"
	"allium/gateway/verified/bundle"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The values of the parameter format.
const (
	formatTar    = "tar"
	formatZip    = "zip"
	formatBundle = "bundle"
)

// layoutVersion is part of the entity tags of archives. It changes when the bytes of an archive change.
const layoutVersion = 1

// maxBeside bounds the bytes that are read for the checksums in a range of a zip, beside those that are sent. A range
// that needs more is answered with the whole zip.
const maxBeside = 64 << 20

// bufferSize is the size in bytes of the writes in which small files and headers are sent.
const bufferSize = 64 << 10

// policyNone is the Content-Security-Policy of an archive, which no browser shows.
const policyNone = "default-src 'none'; sandbox"

// Handlers send directories in one answer. Their methods may be called from any goroutine.
type Handlers struct {
	live     atomic.Pointer[Config]
	underway *limits.FairGate[netip.Prefix]
}

// maxAtOnce bounds the answers under way. Each holds up to maxHeld. A client gets at most half of the free places.
const maxAtOnce = 64

// New returns the handlers. cfg must be valid. r may be nil.
func New(cfg Config, r *limits.Registry) *Handlers {
	h := &Handlers{underway: limits.NewFairGate[netip.Prefix](r, limits.Spec{
		Name: "gateway.archives", Path: "folders in one answer → clients", Policy: "reject: 429 busy",
	}, maxAtOnce, 2)}
	h.Reconfigure(cfg)
	return h
}

// Reconfigure applies a valid configuration to requests that begin from now on.
func (h *Handlers) Reconfigure(cfg Config) { h.live.Store(&cfg) }

var _ content.Folders = (*Handlers)(nil)

// Wants implements content.Folders.
func (h *Handlers) Wants(r *http.Request) bool {
	if !strings.Contains(r.URL.RawQuery, "format") {
		return false
	}
	switch r.URL.Query().Get("format") {
	case formatTar, formatZip, formatBundle:
		return true
	}
	return false
}

// Serve implements content.Folders.
func (h *Handlers) Serve(r *http.Request, f *content.Folder) error {
	q := r.URL.Query()
	if n := len(q["format"]); n > 1 {
		return status.Errorf(status.BadRequest, "parameter format comes %d times. Send it once", n)
	}
	client := f.Response().From.Group
	if err := h.underway.Enter(client); err != nil {
		return err
	}
	defer h.underway.Leave(client)
	t := &tree{source: f, root: f.Root, most: *h.live.Load()}
	if format := q.Get("format"); format != formatBundle {
		return serveArchive(r, f, t, format)
	}
	return serveBundle(r, f, t, q)
}

// write writes a tree as an archive into a window. list is where the list of a zip begins, and 0 if that is
// not known; write returns it.
func write(format string, t *tree, w *window, list int64) (int64, error) {
	var err error
	if format == formatZip {
		list, err = writeZip(t, w, list)
	} else {
		err = writeTar(t, w)
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	return list, err
}

// serveArchive answers with a tar or a zip, or a range of it.
func serveArchive(r *http.Request, f *content.Folder, t *tree, format string) error {
	w := f.Response()
	tag := fmt.Sprintf(`"%s;%s=%d"`, f.Key, format, layoutVersion)
	var all window
	list, err := write(format, t, &all, 0)
	if err != nil {
		return err
	}
	a := answer{f: f, tag: tag, size: all.at, part: byterange.Range{End: all.at}, code: http.StatusOK, format: format}
	switch exchange.Evaluate(r, tag) {
	case status.Precondition:
		return exchange.IfMatchFailed(tag)
	case status.NotModified:
		a.validators()
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if err := a.selectRange(r, t, list); err != nil {
		return err
	}
	w.Head = r.Method == http.MethodHead
	f.Begin(a.header, w.Head)
	if w.Head {
		return nil
	}
	out := bufio.NewWriterSize(f, bufferSize)
	if _, err := write(format, t, &window{Range: a.part, out: out}, list); err != nil {
		return err
	}
	return out.Flush()
}

// answer is an archive or a part of it.
type answer struct {
	f      *content.Folder
	tag    string
	size   int64 // of the archive
	part   byterange.Range
	code   int
	format string
}

// selectRange sets the part that the request asks for.
func (a *answer) selectRange(r *http.Request, t *tree, list int64) error {
	ranges := r.Header.Values("Range")
	if len(ranges) == 0 || r.Method == http.MethodHead || !exchange.RangeApplies(r, a.tag, time.Time{}) {
		return nil
	}
	parts, err := byterange.Parse(nil, strings.Join(ranges, ","), a.size, 1)
	if err != nil {
		h := a.f.Response().Header()
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", a.size))
		h.Set("Accept-Ranges", "bytes")
		return err
	}
	if len(parts) == 0 {
		return nil
	}
	if a.format == formatZip {
		dry := &window{Range: parts[0]}
		if _, err := write(a.format, t, dry, list); err != nil {
			return err
		}
		if dry.reads-parts[0].Len() > maxBeside {
			return nil
		}
	}
	a.part, a.code = parts[0], http.StatusPartialContent
	return nil
}

// validators sets the headers that a 304 answer has too.
func (a *answer) validators() {
	w := a.f.Response()
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Cache-Control", caching(w))
}

// caching returns the Cache-Control of an answer that follows from the address.
func caching(w *exchange.Response) string {
	if w.Caching != "" {
		return w.Caching
	}
	return exchange.Immutable
}

// header sends the header.
func (a *answer) header() {
	a.validators()
	w := a.f.Response()
	h := w.Header()
	media := exchange.MediaTar
	if a.format == formatZip {
		media = exchange.MediaZip
	}
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.FormatInt(a.part.Len(), 10))
	if a.code == http.StatusPartialContent {
		h.Set("Content-Range", a.part.Of(a.size))
	}
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+fileName(a.f)+"."+a.format)
	h.Set("Content-Security-Policy", policyNone)
	h.Set("Cross-Origin-Resource-Policy", "same-site")
	w.WriteHeader(a.code)
}

// fileName returns the name of a directory, percent-encoded.
func fileName(f *content.Folder) string {
	if f.Name == "" {
		return "b3-" + f.Root.Hex()[:16]
	}
	return strings.ReplaceAll(url.QueryEscape(f.Name), "+", "%20")
}

// serveBundle answers with a bundle.
func serveBundle(r *http.Request, f *content.Folder, t *tree, q url.Values) error {
	b := &bundler{t: t, bodies: bundle.MaxBody}
	var err error
	if text := q.Get("bodies"); text != "" {
		if b.bodies, err = strconv.ParseInt(text, 10, 64); err != nil || b.bodies < -1 || b.bodies > bundle.MaxBody {
			return status.Errorf(status.BadRequest, "parameter bodies is %q. Set it to the size in bytes of the "+
				"largest file in the bundle, at most %d, or to -1 for no files", exchange.Clip(text), bundle.MaxBody)
		}
	}
	if text := q.Get("objects"); text != "" {
		if b.only, err = parseNumbers(text); err != nil {
			return err
		}
	}
	w := f.Response()
	tag := bundleTag(f.Root, b)
	if err := b.write(); err != nil {
		return err
	}
	outcome := exchange.Evaluate(r, tag)
	if outcome == status.Precondition {
		return exchange.IfMatchFailed(tag)
	}
	header := func() {
		h := w.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		h.Set("Accept-Ranges", "none")
		if outcome == status.NotModified {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", bundle.MediaType)
		h.Set("Cross-Origin-Resource-Policy", "same-site")
		w.WriteHeader(http.StatusOK)
	}
	w.Head = r.Method == http.MethodHead
	f.Begin(header, w.Head || outcome == status.NotModified)
	if w.Head || outcome == status.NotModified {
		return nil
	}
	out := bufio.NewWriterSize(f, bufferSize)
	b.w = bundle.NewWriter(out, f.Root)
	if err := b.write(); err != nil {
		return err
	}
	return out.Flush()
}

// bundleTag returns the entity tag of a bundle. It is weak, because a bundle leaves out what is not here at the time.
func bundleTag(root b3.Root, b *bundler) string {
	return fmt.Sprintf(`W/"%s;bundle=1-%d-%s"`, root, b.bodies, b3.Sum(fmt.Append(nil, b.only)).Hex()[:16])
}
