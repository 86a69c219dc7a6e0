package content

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path"
	"strconv"
	"sync"

	"allium/gateway/content/pages"
	"allium/gateway/content/sorted"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// indexPage is the name of the file that is served for its directory.
const indexPage = "index.html"

// The bounds of a listing that is sorted. One beyond them is sent in the order of its bytes.
const (
	maxSorted      = 10_000  // entries
	maxSortedBytes = 4 << 20 // bytes of the directory's manifests: 10,000 files with the longest names need less
)

// longListing is the number of bytes of manifests above which a listing is long. Its head is sent before its entries,
// so that a reader sees at once that they come.
const longListing = 64 << 10

// directory serves a directory: its index.html, or a listing if there is no index.html or
// the request asks for a listing.
func (g *Handlers) directory(b *body, r *http.Request, t target, dir *manifest.Dir) error {
	var q pages.Query
	var err error
	if t.asset == "" {
		if q, err = pages.ParseQuery(r); err != nil {
			return err
		}
		q.Name = t.called
	}
	if t.mount != nil {
		if q.Format == "json" {
			return status.Errorf(status.BadRequest, "this link has no listing as JSON. Open it without format")
		}
		q.Format = "html"
	}
	if q.Format == "" {
		e, err := dir.Named(b.ctx)
		if err != nil {
			return err
		}
		if e != nil && e.Kind == manifest.File {
			err := cmp.Or(g.denylist.Path(t.root, path.Join(t.path(), e.Name)), g.denylist.Object(e.Root))
			if err != nil {
				return err
			}
			it := item{root: e.Root, name: e.Name, via: t.root, vary: "Accept"}
			if t.asset != "" {
				return serveAsset(g, b, r, it)
			}
			return g.content(b, r, it, g.objects.Memory(e.Root))
		}
		if t.asset != "" {
			return status.Errorf(status.NotFound, "cannot open %q: it is a directory without an index.html",
				exchange.Clip(t.path()))
		}
		q.Format = "html"
	}
	l := &listing{g: g, b: b, r: r, t: t, dir: dir, q: q}
	if q.Format == "html" {
		l.shared = g.shared(t, dir.Root, true, dir.Size)
		l.readme = newReadme(l)
	}
	return l.serve()
}

// listing is the answer to one request for the entries of a directory.
type listing struct {
	g   *Handlers
	b   *body
	r   *http.Request
	t   target
	dir *manifest.Dir
	q   pages.Query

	shared pages.Shared
	readme *readme // nil: none is shown

	head  *pageHead
	sorts bool        // the entries may be held
	order pages.Order // if they are not
	held  held
}

// held are the entries of a directory in memory.
type held struct {
	*sorted.Entries // nil: they are not held
	totals          pages.Totals
}

// serve sends the listing. The program generates it, so its ETag is weak and caches revalidate it.
func (l *listing) serve() error {
	g, b, w := l.g, l.b, l.b.w
	l.head = &pageHead{contentType: "application/json", policy: exchange.PagePolicy, vary: []string{"Accept-Encoding"}}
	if l.q.Format == "html" {
		l.head.contentType = exchange.MediaHTML
		l.head.vary = append(l.head.vary, "Accept", "Accept-Language")
	} else if l.r.URL.Query().Get("format") == "" { // Accept decides
		l.head.vary = append(l.head.vary, "Accept")
	}
	l.head.etag = pageTag(l.t.mount.key(l.dir.Root), l.t.mount.key(l.t.root), l.q.Tag(), l.shared.Ticket+l.shared.Note,
		w.Prefix, strconv.FormatBool(l.readme != nil))
	if fresh, err := g.pageHeader(b, l.r, l.head); fresh || err != nil {
		return err
	}
	coding, done := g.encoders.Acquire(l.r)
	defer done()
	l.head.coding = coding
	if l.r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	if l.q.Format == "html" && l.dir.Listed <= maxSortedBytes {
		release, ok := g.renderer.Hold(w.From.Group, sorted.Bytes(l.dir, maxSorted))
		if l.sorts = ok; ok {
			defer release()
		} else {
			l.order, l.head.passing = pages.TooBusy, true
		}
	}
	if !l.sorts && l.order == pages.AsAsked {
		l.order = pages.TooLong
	}
	defer l.readme.free()
	w.Listing = true
	return b.writePage(l.r, g.encoders, coding, l.write)
}

// page returns a page that nothing was written of.
func (l *listing) page() pages.Writer {
	if l.q.Format == "json" {
		return &pages.JSON{Root: l.dir.Root, Path: l.t.path()}
	}
	return pages.NewListing(l.t.top(l.b.w.Frame(), l.shared), l.r.URL.EscapedPath(), len(l.t.names) > 0, l.q)
}

// write writes the page. The second time it writes the same.
func (l *listing) write(to *output) error {
	page := l.page()
	long := l.dir.Listed > longListing
	head := sync.OnceValue(func() error {
		err := page.Head(to)
		if err == nil && long {
			err = to.send()
		}
		return err
	})
	if l.sorts && l.held.Entries == nil {
		if err := l.collect(long, head); err != nil {
			return err
		}
	}
	entries, order, known := l.dir.Entries(l.b.ctx), l.order, (*pages.Totals)(nil)
	if l.held.Entries != nil {
		entries, order, known = l.held.All(), pages.AsAsked, &l.held.totals
		l.readme.prepare(l) // before the header
	}
	begin := sync.OnceValue(func() error {
		if err := head(); err != nil {
			return err
		}
		return page.Begin(to, order, known)
	})
	return writeEntries(to, page, begin, l.readme.watch(entries), func() error { return l.readme.show(l, page, to) })
}

// collect holds and sorts the entries, unless there are too many. The page of a long directory calls head when the
// first one is proved; for any other page the readme is looked at first.
func (l *listing) collect(long bool, head func() error) (err error) {
	proved := func() error { return nil }
	if long {
		proved = head
	}
	if l.held.Entries, err = sorted.Collect(l.b.ctx, l.dir, maxSorted, proved); err != nil {
		return err
	}
	if l.sorts = l.held.Entries != nil; !l.sorts {
		l.order = pages.TooLong
		return nil
	}
	l.held.Sort(pages.Orders[l.q.Sort], l.q.Desc)
	for e, err := range l.held.All() {
		if err != nil {
			return err
		}
		l.held.totals.Add(&e)
		l.readme.see(&e)
	}
	return nil
}

// pageHead are the headers of a generated page.
type pageHead struct {
	etag, contentType, policy string
	vary                      []string
	coding                    string // the Content-Encoding, "" for none; may be set until the first byte
	passing                   bool   // the next answer may be another, so this one is not to be kept
}

// pageTag returns the weak entity tag of a page about the object with a key. It changes with parts and with the
// program.
func pageTag(key string, parts ...string) string {
	sum := b3.Sum(fmt.Appendf(nil, "%q", append(parts, pages.Version)))
	return fmt.Sprintf(`W/"%s.%s"`, key, sum.Hex()[:16])
}

// pageHeader evaluates the conditions of the request and arranges for the header to be sent with the first byte.
// fresh means that the client has the page, and 304 was sent.
func (g *Handlers) pageHeader(b *body, r *http.Request, p *pageHead) (fresh bool, err error) {
	w := b.w
	h := w.Header()
	outcome := exchange.Evaluate(r, p.etag)
	if outcome == status.Precondition {
		return false, exchange.IfMatchFailed(p.etag)
	}
	b.header = func(*body) {
		h["Vary"] = p.vary
		if p.passing {
			h.Set("Cache-Control", "no-store")
		} else {
			h.Set("ETag", p.etag)
			h.Set("Cache-Control", "no-cache")
			if w.Caching == privately {
				h.Set("Cache-Control", privately)
			}
		}
		if outcome == status.NotModified {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if p.coding != "" {
			h.Set("Content-Encoding", p.coding)
		}
		h.Set("Content-Type", p.contentType)
		h.Set("Content-Security-Policy", p.policy)
		w.WriteHeader(http.StatusOK)
	}
	if outcome == status.NotModified {
		b.begin()
		return true, nil
	}
	return false, nil
}

// writeEntries writes a page. It calls begin, which writes what precedes the entries, when one of them is proved, and
// last when all are written.
func writeEntries(
	w io.Writer, page pages.Writer, begin func() error, entries iter.Seq2[manifest.Entry, error], last func() error,
) error {
	for e, err := range entries {
		if err == nil {
			err = begin()
		}
		if err == nil {
			err = page.Entry(w, &e)
		}
		if err != nil {
			return err
		}
	}
	if err := begin(); err != nil { // there may be no entries
		return err
	}
	if err := last(); err != nil {
		return err
	}
	return page.Foot(w)
}
