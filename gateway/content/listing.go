package content

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// directory serves a directory: its index.html, or a listing if there is no index.html or
// the request asks for a listing.
func (g *Handlers) directory(b *body, r *http.Request, t target, dir b3.Root) error {
	format, err := listingFormat(r)
	if err != nil {
		return err
	}
	if format == "" {
		e, err := manifest.Lookup(b.ctx, g.manifests(b.w, r, t.root), dir, "index.html")
		if err == nil && e.Kind == manifest.File {
			err := cmp.Or(g.denylist.Path(t.root, path.Join(t.path(), e.Name)), g.denylist.Object(e.Root))
			if err != nil {
				return err
			}
			it := item{root: e.Root, name: e.Name, via: t.root, vary: "Accept"}
			return g.content(b, r, it, g.objects.Memory(e.Root))
		}
		if err != nil && status.Of(err) != status.NotFound {
			return err
		}
		format = "html"
	}
	return g.listing(b, r, t, dir, format)
}

// listingFormat returns the listing that the client asks for: "html", "json", or "" if the
// client asks for no listing.
func listingFormat(r *http.Request) (string, error) {
	formats := r.URL.Query()["format"]
	switch f := strings.Join(formats, ","); {
	case f == "html", f == "json":
		return f, nil
	case f != "" || len(formats) > 1:
		return "", status.Errorf(status.BadRequest, "parameter format is %q. Set it to html or json", exchange.Clip(f))
	}
	json, html := false, false
	for t, q := range exchange.Accepted(r.Header.Values("Accept")) {
		json = json || q > 0 && t == "application/json"
		html = html || q > 0 && t == "text/html"
	}
	if json && !html {
		return "json", nil
	}
	return "", nil
}

// listing streams the entries of a directory as it reads them, so that it holds one manifest
// of them in memory, however many there are. The program generates the listing, so its ETag
// is weak and caches revalidate it.
func (g *Handlers) listing(b *body, r *http.Request, t target, dir b3.Root, format string) error {
	w := b.w
	etag := fmt.Sprintf(`W/"%s.%s.%s"`, dir, format, exchange.PageVersion)
	h := w.Header()
	vary := []string{"Accept-Encoding", "Accept"}
	if r.URL.Query().Get("format") != "" { // Accept does not decide then
		vary = vary[:1]
	}
	if outcome := exchange.Evaluate(r, etag); outcome == status.Precondition {
		return exchange.IfMatchFailed(etag)
	} else if outcome == status.NotModified {
		h["Vary"] = vary
		h.Set("ETag", etag)
		h.Set("Cache-Control", "no-cache")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	var page pageWriter = &jsonListing{target: t, root: dir}
	contentType := "application/json"
	if format == "html" {
		page, contentType = newHTMLListing(t, dir), "text/html; charset=utf-8"
	}
	coding, done := g.acquireEncoder(r)
	defer done()
	b.header = func(*body) {
		h.Set("Content-Type", contentType)
		h.Set("Content-Security-Policy", exchange.PagePolicy)
		h["Vary"] = vary
		h.Set("ETag", etag)
		h.Set("Cache-Control", "no-cache")
		if coding != "" {
			h.Set("Content-Encoding", coding)
		}
		w.WriteHeader(http.StatusOK)
	}
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	w.Listing = true
	write := func(to io.Writer) error {
		out := bufio.NewWriterSize(to, 16<<10)
		if err := page.head(out); err != nil {
			return err
		}
		for e, err := range manifest.Entries(b.ctx, g.manifests(b.w, r, t.root), dir) {
			if err == nil {
				err = page.entry(out, e)
			}
			if err != nil {
				return err
			}
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

// pageWriter writes the head, the entries and the foot of a listing.
type pageWriter interface {
	head(w io.Writer) error
	entry(w io.Writer, e manifest.Entry) error
	foot(w io.Writer) error
}

// jsonListing writes {"root","path","entries":[…]}, an api.Listing.
type jsonListing struct {
	target target
	root   b3.Root
	n      int
}

func (l *jsonListing) head(w io.Writer) error {
	path, err := json.Marshal(l.target.path())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"root":%q,"path":%s,"entries":[`, l.root, path)
	return err
}

func (l *jsonListing) entry(w io.Writer, e manifest.Entry) error {
	line, err := json.Marshal(api.Entry{
		Name: e.Name, Kind: api.Kind(e.Kind.String()), Root: e.Root, Size: e.Size,
		Executable: e.Executable, Target: e.Target,
	})
	if err != nil {
		return err
	}
	sep := ",\n"
	if l.n == 0 {
		sep = "\n"
	}
	l.n++
	_, err = fmt.Fprintf(w, "%s%s", sep, line)
	return err
}

func (l *jsonListing) foot(w io.Writer) error {
	_, err := io.WriteString(w, "\n]}\n")
	return err
}

// htmlListing writes a listing with the templates of pages.html. Its fields are the
// templates' data.
type htmlListing struct {
	Title  string
	Crumbs []crumb
	Root   b3.Root // of the whole tree
	Dir    b3.Root // of this directory
	Style  template.CSS
	Up     bool
	Count  int
	Bytes  int64
}

// crumb is one directory on the path from the root.
type crumb struct{ Name, URL string }

// row is one entry of the listing.
type row struct {
	Name, URL, Kind, Note, Size, Exact string
	Address, Short                     string
}

func newHTMLListing(t target, dir b3.Root) *htmlListing {
	l := &htmlListing{Root: t.root, Dir: dir, Style: exchange.PageStyle, Up: len(t.names) > 0}
	at := target{root: t.root, name: t.name}
	l.Crumbs = append(l.Crumbs, crumb{cmp.Or(exchange.EscapeName(t.name), shorten(t.root)), at.url(true)})
	for _, n := range t.names {
		at.names = append(at.names, n)
		l.Crumbs = append(l.Crumbs, crumb{exchange.EscapeName(n), at.url(true)})
	}
	l.Title = l.Crumbs[len(l.Crumbs)-1].Name
	return l
}

// shorten returns the first 8 digits of an address: "b3:1a2b3c4d…".
func shorten(r b3.Root) string { return r.String()[:len("b3:")+8] + "…" }

func (l *htmlListing) head(w io.Writer) error {
	return exchange.PageTemplates.ExecuteTemplate(w, "head", l)
}
func (l *htmlListing) foot(w io.Writer) error {
	return exchange.PageTemplates.ExecuteTemplate(w, "foot", l)
}

func (l *htmlListing) entry(w io.Writer, e manifest.Entry) error {
	l.Count++
	r := row{Name: exchange.EscapeName(e.Name), URL: "./" + url.PathEscape(e.Name), Kind: e.Kind.String()}
	switch e.Kind {
	case manifest.Directory:
		r.URL += "/"
	case manifest.Link:
		r.Note = "→ " + exchange.EscapeName(e.Target)
	case manifest.File:
		l.Bytes += e.Size
		r.Size, r.Exact = limits.Bytes(e.Size).Human(), fmt.Sprintf("%d bytes", e.Size)
		if e.Executable {
			r.Note = "executable"
		}
	}
	if !e.Root.IsZero() {
		r.Address, r.Short = e.Root.String(), e.Root.Hex()[:8]
	}
	return exchange.PageTemplates.ExecuteTemplate(w, "row", r)
}

// Last returns the index of this directory in Crumbs.
func (l *htmlListing) Last() int { return len(l.Crumbs) - 1 }

// Total returns the size of the files in the listing, in words.
func (l *htmlListing) Total() string { return limits.Bytes(l.Bytes).Human() }
