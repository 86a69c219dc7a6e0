package content

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// directory serves a directory: its index.html, or a listing if there is no index.html or
// the request asks for a listing.
func (g *Handlers) directory(b *body, r *http.Request, t target, dir b3.Root) error {
	q, err := parsePageQuery(r)
	if err != nil {
		return err
	}
	nodes, err := openNodes(b.ctx, g.manifests(b.w, r, t.root), dir)
	if err != nil {
		return err
	}
	if q.format == "" {
		e, found, err := nodes.lookup(b.ctx, "index.html")
		if err != nil {
			return err
		}
		if found && e.Kind == manifest.File {
			err := cmp.Or(g.denylist.Path(t.root, path.Join(t.path(), e.Name)), g.denylist.Object(e.Root))
			if err != nil {
				return err
			}
			it := item{root: e.Root, name: e.Name, via: t.root, vary: "Accept"}
			return g.content(b, r, it, g.objects.Memory(e.Root))
		}
		q.format = "html"
	}
	if q.format == "json" {
		return g.listing(b, r, t, nodes, q, "", &jsonListing{target: t, root: dir})
	}
	shared := g.shared(t, dir, true, nodes.topSize)
	return g.listing(b, r, t, nodes, q, shared.Ticket, newHTMLListing(t, q, shared))
}

// listing sends the entries of a directory. The program generates the listing, so its ETag is
// weak and caches revalidate it. ticket is what the page contains beside what its URL and the
// directory say.
func (g *Handlers) listing(
	b *body, r *http.Request, t target, nodes *nodes, q pageQuery, ticket string, page pageWriter,
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
	if fresh, err := g.pageHeader(b, r, pageHead{
		etag: pageTag(nodes.dir, t.root.String(), q.tag(), ticket), contentType: contentType, policy: exchange.PagePolicy,
		vary: vary,
	}); fresh || err != nil {
		return err
	}
	coding, done := g.acquireEncoder(r)
	defer done()
	if coding != "" {
		w.Header().Set("Content-Encoding", coding)
	}
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	sorted := q.format == "html" && nodes.sortable()
	if sorted {
		leave, err := g.acquireSorter(b, nodes)
		if err != nil {
			return err
		}
		defer leave()
	}
	if err := nodes.readAhead(b.ctx, sorted); err != nil {
		return err
	}
	w.Listing = true
	write := func(to io.Writer, flush func() error) error {
		out := bufio.NewWriterSize(to, 16<<10)
		err := page.head(out)
		if err == nil && q.format == "html" && nodes.large() {
			err = cmp.Or(out.Flush(), flush())
		}
		if err != nil {
			return err
		}
		if sorted {
			err = writeSorted(b.ctx, out, nodes, q, page)
		} else {
			err = writeInOrder(out, page, nodes.entries(b.ctx))
		}
		if err != nil {
			return err
		}
		if err := page.foot(out); err != nil {
			return err
		}
		return out.Flush()
	}
	if !r.ProtoAtLeast(1, 1) {
		return b.writeWithLength(write)
	}
	return b.writeCompressed(coding, write)
}

// pageHead are the headers of a generated page.
type pageHead struct {
	etag, contentType, policy string
	vary                      []string
}

// pageTag returns the weak entity tag of a page about the object root. It changes with parts and with the program.
func pageTag(root b3.Root, parts ...string) string {
	sum := b3.Sum(fmt.Appendf(nil, "%q", append(parts, pageVersion)))
	return fmt.Sprintf(`W/"%s.%s"`, root, sum.Hex()[:16])
}

// pageHeader evaluates the conditions of the request and arranges for the header to be sent with the first byte.
// fresh means that the client has the page, and 304 was sent.
func (g *Handlers) pageHeader(b *body, r *http.Request, p pageHead) (fresh bool, err error) {
	w := b.w
	h := w.Header()
	outcome := exchange.Evaluate(r, p.etag)
	if outcome == status.Precondition {
		return false, exchange.IfMatchFailed(p.etag)
	}
	b.header = func(*body) {
		h["Vary"] = p.vary
		h.Set("ETag", p.etag)
		h.Set("Cache-Control", "no-cache")
		if outcome == status.NotModified {
			w.WriteHeader(http.StatusNotModified)
			return
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

// order says in what order a listing has its entries.
type order uint8

const (
	inOrder order = iota // of their bytes: the directory is too long to be sorted
	asAsked              // sorted
)

// writeInOrder writes entries as it reads them. It holds one manifest of them, however many there are.
func writeInOrder(w io.Writer, page pageWriter, entries entries) error {
	if err := page.begin(w, inOrder); err != nil {
		return err
	}
	for e, err := range entries {
		if err == nil {
			err = page.entry(w, &e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSorted writes the entries as q asks. If there turn out to be more than maxSorted, it writes them in order.
func writeSorted(ctx context.Context, w io.Writer, nodes *nodes, q pageQuery, page pageWriter) error {
	all, complete, err := nodes.collect(ctx)
	if err != nil {
		return err
	}
	if !complete {
		return writeInOrder(w, page, nodes.entries(ctx))
	}
	if err := page.begin(w, asAsked); err != nil {
		return err
	}
	sortEntries(all, q)
	for i := range all {
		if err := page.entry(w, &all[i]); err != nil {
			return err
		}
	}
	return nil
}
