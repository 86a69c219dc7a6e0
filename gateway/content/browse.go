package content

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// browse answers /b3/{b3}/{path…}: files, index.html, listings.
func (g *Handlers) browse(w *exchange.Response, r *http.Request, rest string) error {
	t, err := parseTarget(rest)
	if err != nil {
		return err
	}
	w.Root = t.root
	if t.fixed {
		return w.Redirect(r, http.StatusPermanentRedirect, t.url(t.slash))
	}
	if err := g.denylist.Path(t.root, t.path()); err != nil {
		return err
	}
	return g.watch(w, r, func(b *body) error { return g.browseTarget(b, r, t) })
}

func (g *Handlers) browseTarget(b *body, r *http.Request, t target) error {
	e, err := g.find(b, r, t)
	if err != nil {
		return err
	}
	if err := g.denylist.Object(e.Root); err != nil && e.Kind != manifest.Link {
		return err
	}
	switch {
	case e.Kind == manifest.Link:
		return follow(b.w, r, t, e.Target)
	case e.Kind == manifest.Directory && t.slash:
		return g.directory(b, r, t, e.Root)
	case e.Kind == manifest.Directory:
		return b.w.Redirect(r, http.StatusMovedPermanently, t.url(true))
	case t.slash && len(t.names) == 0:
		return b.w.Redirect(r, http.StatusMovedPermanently, t.url(false))
	case t.slash:
		return status.Errorf(status.NotFound, "%q is a file; ask for it without the slash at the end", exchange.Clip(t.path()))
	}
	return g.content(b, r, item{root: e.Root, name: path.Base("/" + t.path()), via: t.root}, g.objects.Memory(e.Root))
}

// find is the entry that t names. Of a bare address only its bytes can say
// whether it is a directory: when the magic is there and they decode.
func (g *Handlers) find(b *body, r *http.Request, t target) (manifest.Entry, error) {
	e, err := manifest.Lookup(b.ctx, g.getter(b.w, r, t.root), t.root, t.path())
	switch {
	case len(t.names) == 0 && status.Of(err) == status.BadRequest:
		return manifest.Entry{Kind: manifest.File, Root: t.root}, nil
	case errors.Is(err, manifest.ErrNotManifest):
		return e, status.Errorf(status.NotFound, "%s is a file, so there is nothing below it", t.root)
	}
	return e, err
}

// getter reads the manifests of the tree below top.
func (g *Handlers) getter(w *exchange.Response, r *http.Request, top b3.Root) manifest.Getter {
	return func(ctx context.Context, root b3.Root) ([]byte, error) {
		o := OpenOptions{Via: top, Whole: true}
		if root == top {
			o = OpenOptions{} // it may be a large file
		}
		c, err := g.open(ctx, w, r, root, o)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if c.Size() > manifest.MaxNode {
			return nil, manifest.ErrNotManifest
		}
		p := make(manifestBuffer, 0, c.Size())
		if err := c.Copy(ctx, &p, 0, c.Size()); err != nil {
			return nil, err
		}
		return p, nil
	}
}

// manifestBuffer keeps what is written to it, if it begins as a manifest does.
type manifestBuffer []byte

func (b *manifestBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	if n := min(len(*b), len(manifest.Magic)); string((*b)[:n]) != manifest.Magic[:n] {
		return 0, manifest.ErrNotManifest
	}
	return len(p), nil
}

// follow redirects to where a link leads, unless that is outside the tree. The
// next request looks there. A link that leads to itself is hop_exceeded; a longer
// loop is the client's to notice.
func follow(w *exchange.Response, r *http.Request, t target, to string) error {
	link := t.path()
	if path.IsAbs(to) {
		return status.Errorf(status.NotFound, "%q is a link to %q, outside the directory", exchange.Clip(link), exchange.Clip(to))
	}
	t.names = t.names[:len(t.names)-1]
	slash := t.slash
	for seg := range strings.SplitSeq(to, "/") {
		slash = slash || seg == ""
		switch {
		case seg == "" || seg == ".":
		case seg == ".." && len(t.names) == 0:
			return status.Errorf(status.NotFound, "%q is a link to %q, outside the directory", exchange.Clip(link), exchange.Clip(to))
		case seg == "..":
			t.names = t.names[:len(t.names)-1]
		default:
			t.names = append(t.names, seg)
		}
	}
	if to := t.path(); to == link || strings.HasPrefix(to, link+"/") {
		return status.Errorf(status.HopExceeded, "%q is a link to itself", exchange.Clip(link))
	}
	return w.Redirect(r, http.StatusMovedPermanently, t.url(slash || len(t.names) == 0))
}
