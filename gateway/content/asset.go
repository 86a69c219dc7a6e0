package content

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// Assets serves the files of the edge's sources, in the way in which other content is served. Its methods may be called
// from any goroutine.
type Assets struct{ g *Handlers }

// NewAssets returns the Assets of the handlers, with which it shares everything.
func NewAssets(g *Handlers) *Assets { return &Assets{g} }

// AcquireFetch is that of Handlers.
func (a *Assets) AcquireFetch(ctx context.Context, w *exchange.Response) (leave func(), err error) {
	return a.g.AcquireFetch(ctx, w)
}

// Stored serves an object of the store: its bytes, ranges of them, or with format=bao its verified encoding. The name
// is that of the file, and w.Caching says how long caches may keep it. It returns not_found if the store does not have
// the object, and then has sent nothing.
func (a *Assets) Stored(w *exchange.Response, r *http.Request, root b3.Root, name string) error {
	w.Root = root
	if err := a.g.denylist.Object(root); err != nil {
		return err
	}
	return a.g.withStallTimeout(w, r, func(b *body) error {
		return serveAsset(a.g, b, r, item{root: root, name: name, storedOnly: true})
	})
}

// serveAsset serves the bytes or the verified encoding of an object.
func serveAsset(g *Handlers, b *body, r *http.Request, it item) error {
	b.item = it
	wants, negotiated, err := wantsBao(r)
	switch {
	case err != nil:
		return err
	case wants:
		return g.serveEncoding(b, r, it.root, negotiated)
	}
	it.hasEncoding = true
	return g.content(b, r, it, g.objects.Memory(it.root))
}

// WantsEncoding reports whether the client asks for the verified encoding, or the error of a malformed query.
func (a *Assets) WantsEncoding(r *http.Request) (bool, error) {
	wants, _, err := wantsBao(r)
	return wants, err
}

// Arriving is a file whose address is not known yet, because its bytes still arrive.
type Arriving struct {
	Name string // of the file
	Size int64  // −1: not known
	// Copy writes the bytes as they arrive. It returns an error if they cannot become whole, at any time. It is not
	// called for HEAD.
	Copy func(ctx context.Context, to io.Writer) error
}

// Send sends a file that arrives, without ETag and ranges. The bytes are not proved.
func (a *Assets) Send(w *exchange.Response, r *http.Request, f Arriving) error {
	if err := refuseServiceWorker(r); err != nil {
		return err
	}
	b := newBody(r.Context(), w)
	defer b.free()
	b.item, b.size = item{name: f.Name}, f.Size
	b.header = (*body).arrivingHeader
	out := &arrivingBody{b}
	if w.Head = r.Method == http.MethodHead; w.Head {
		b.contentType = mediatype.OfName(f.Name)
		b.begin()
		return nil
	}
	if err := f.Copy(b.ctx, out); err != nil {
		return exchange.CauseOf(b.ctx, err)
	}
	b.begin() // no first write has sent the header of an empty file
	return nil
}

// arrivingBody is the writer of a file that arrives. Its first write tells the content type.
type arrivingBody struct{ b *body }

// Write sends bytes, and waits until the client has room for them.
func (a *arrivingBody) Write(p []byte) (int, error) {
	if b := a.b; !b.w.Started() {
		named := mediatype.OfName(b.item.name)
		if named == "" {
			named = http.DetectContentType(p)
		}
		b.contentType = mediatype.CharsetOf(p[:min(len(p), mediatype.SniffLen)], true).Declare(named)
	}
	return a.b.Write(p)
}

// arrivingHeader sends the header of a file that arrives.
func (b *body) arrivingHeader() {
	h := b.w.Header()
	if b.contentType != "" {
		b.typeHeader(h)
	}
	h["Cache-Control"] = b.w.HeaderValue(b.w.Caching)
	if b.size >= 0 {
		h["Content-Length"] = b.w.HeaderValue(strconv.FormatInt(b.size, 10))
	}
	b.w.WriteHeader(http.StatusOK)
}

// Tree is the directory that a source stands for.
type Tree struct {
	Base string        // the escaped path of the source, without a slash at its end
	Key  string        // an address or a name
	Keep time.Duration // how long caches may keep the files of an address
}

// Tree serves the file below a tree that an escaped path names, or the index.html of a directory. It has no listings.
func (a *Assets) Tree(w *exchange.Response, r *http.Request, tree Tree, path string) error {
	t, err := parseNamed("x/" + path)
	if err != nil {
		return err
	}
	t.asset, t.name = tree.Base, ""
	root, _, err := exchange.ParseObject(url.PathEscape(tree.Key))
	if err == nil {
		w.Caching = exchange.MaxAge(tree.Keep)
		t.root = root
		return a.g.browseRoot(w, r, t)
	}
	return browseNamed(a.g, w, r, strings.ToLower(tree.Key), t)
}

// Rest writes the bytes of an object of the store from an offset on.
func (a *Assets) Rest(ctx context.Context, root b3.Root, from int64, to io.Writer) error {
	if err := a.g.denylist.Object(root); err != nil {
		return err
	}
	c, err := a.g.objects.Open(ctx, root, OpenOptions{LocalOnly: true})
	if err != nil {
		return err
	}
	defer c.Close()
	if from >= c.Size() {
		return nil
	}
	return c.Copy(ctx, to, from, c.Size())
}
