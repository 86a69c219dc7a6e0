package content

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path"
	"sync"

	"allium/gateway/content/sorted"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// indexPage is the name of the file that is served for its directory.
const indexPage = "index.html"

// directory serves a directory: its index.html, or a listing if there is no index.html or
// the request asks for a listing.
func (g *Handlers) directory(b *body, r *http.Request, t target, dir *manifest.Dir) error {
	var q pageQuery
	var err error
	if t.asset == "" {
		if q, err = parsePageQuery(r); err != nil {
			return err
		}
	}
	if t.mount != nil {
		if q.format == "json" {
			return status.Errorf(status.BadRequest, "this link has no listing as JSON. Open it without format")
		}
		q.format = "html"
	}
	if q.format == "" {
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
		q.format = "html"
	}
	if q.format == "json" {
		return g.listing(b, r, t, dir, q, "", func() pageWriter { return &jsonListing{target: t, root: dir.Root} })
	}
	shared := g.shared(t, dir.Root, true, dir.Size)
	return g.listing(b, r, t, dir, q, shared.Ticket+shared.Note, func() pageWriter {
		return newHTMLListing(t, r.URL.EscapedPath(), q, b.w.Frame(), shared)
	})
}

// listing sends the entries of a directory. The program generates the listing, so its ETag is
// weak and caches revalidate it. ticket is what the page contains beside what its URL and the
// directory say. newPage returns a page that nothing was written of.
func (g *Handlers) listing(
	b *body, r *http.Request, t target, dir *manifest.Dir, q pageQuery, ticket string, newPage func() pageWriter,
) error {
	w := b.w
	contentType := "application/json"
	if q.format == "html" {
		contentType = exchange.MediaHTML
	}
	vary := []string{"Accept-Encoding", "Accept"}
	if r.URL.Query().Get("format") != "" { // Accept does not decide then
		vary = vary[:1]
	}
	head := &pageHead{
		etag:        pageTag(t.mount.key(dir.Root), t.mount.key(t.root), q.tag(), ticket, w.Prefix),
		contentType: contentType, policy: exchange.PagePolicy, vary: vary,
	}
	if fresh, err := g.pageHeader(b, r, head); fresh || err != nil {
		return err
	}
	coding, done := g.encoders.Acquire(r)
	defer done()
	head.coding = coding
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	sorts, order := false, tooLong
	if q.format == "html" && dir.Listed <= maxSortedBytes {
		release, ok := g.holdPage(b, sorted.Bytes(dir, maxSorted))
		if ok {
			defer release()
			sorts = true
		} else {
			order, head.passing = tooBusy, true
		}
	}
	w.Listing = true
	var all *sorted.Entries
	return b.writePage(r, g.encoders, coding, func(to *output) error {
		page := newPage()
		head := sync.OnceValue(func() error {
			err := page.head(to)
			if err == nil && dir.Listed > longListing {
				err = to.send()
			}
			return err
		})
		if sorts && all == nil {
			var err error
			if all, err = sorted.Collect(b.ctx, dir, maxSorted, head); err != nil {
				return err
			}
			if sorts = all != nil; sorts {
				all.Sort(orders[q.sort], q.desc)
			}
		}
		entries, order := dir.Entries(b.ctx), order
		if all != nil {
			entries, order = all.All(), asAsked
		}
		begin := sync.OnceValue(func() error {
			if err := head(); err != nil {
				return err
			}
			return page.begin(to, order)
		})
		return writeEntries(to, page, begin, entries)
	})
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
	sum := b3.Sum(fmt.Appendf(nil, "%q", append(parts, pageVersion)))
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

// pageWriter writes the parts of a listing in this order.
type pageWriter interface {
	head(w io.Writer) error
	begin(w io.Writer, order order) error // what precedes the entries and depends on their order
	entry(w io.Writer, e *manifest.Entry) error
	foot(w io.Writer) error
}

// order says in what order a listing has its entries, and why.
type order uint8

const (
	asAsked order = iota // sorted
	tooLong              // of their bytes: the directory is too long to be sorted
	tooBusy              // of their bytes: other listings hold the memory for it
)

// writeEntries writes a page. It calls begin, which writes what precedes the entries, when one of them is proved.
func writeEntries(
	w io.Writer, page pageWriter, begin func() error, entries iter.Seq2[manifest.Entry, error],
) error {
	for e, err := range entries {
		if err == nil {
			err = begin()
		}
		if err == nil {
			err = page.entry(w, &e)
		}
		if err != nil {
			return err
		}
	}
	if err := begin(); err != nil { // there may be no entries
		return err
	}
	return page.foot(w)
}
