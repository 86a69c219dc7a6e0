package content

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"allium/gateway/api"
	"allium/gateway/content/kind"
	"allium/gateway/content/mediatype"
	"allium/gateway/content/pages"
	"allium/gateway/exchange"
	"allium/gateway/site"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

func (g *Handlers) browseEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "browse", Name: "browse", Methods: exchange.Reading, Path: "/b3/{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows a file, or a directory by its index.html or a listing. " +
			"{path} is an address and a path below it.",
		More: "A directory without the slash at its end is redirected. `%2F` is a slash, and `/./` and `//` are " +
			"one; a directory or web page asked for in such a way is redirected. A symbolic link is redirected to " +
			"its target inside the tree. A name or a ticket in place of the address is redirected to its page. " +
			"`Accept: application/json` without text/html asks for a listing as JSON.",
		Params:  browseParams,
		Headers: contentHeaders,
		Answers: append(slices.Clone(browseAnswers), exchange.Reply{
			Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"},
			Doc: "the page of the name or the ticket that stands in place of the address",
		}),
		Fails: append(slices.Clone(contentFails), status.Unsupported, status.BodyCap),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return g.browse(w, r, in)
		},
	}
}

// browseParams are the parameters of a path below an address or a name.
var browseParams = slices.Concat(pages.Params, folderParams)

// browseAnswers are the answers of a path below an address or a name.
var browseAnswers = slices.Concat(contentAnswers, folderAnswers, []exchange.Reply{
	{
		Code: http.StatusOK, Payload: exchange.JSONBody[api.Listing](),
		Headers: []string{"ETag", "Vary", "Content-Encoding"}, Doc: "a listing; its ETag is weak",
	},
	{
		Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
		Headers: []string{"ETag", "Vary", "Content-Encoding"},
		Doc:     "a listing, or the page of a file; its ETag is weak",
	},
	{
		Code: http.StatusMovedPermanently, Headers: []string{"Location", "Cache-Control"},
		Doc: "the URL of the directory with its slash, or of the link's target",
	},
	canonicalAddress,
})

// browse serves /b3/{b3}/{path…}: a file, a directory's index.html, or a listing.
func (g *Handlers) browse(w *exchange.Response, r *http.Request, in exchange.Input) error {
	t, err := parseTarget(in.Rest)
	if err != nil {
		return browseOther(w, r, in.Rest, err)
	}
	t.uneven = t.uneven || in.Uneven
	if t.rewritten {
		return w.Redirect(r, http.StatusPermanentRedirect, t.url(t.slash))
	}
	if ownHost(r, in) {
		return redirectToHost(g, w, r, in, site.OfRoot(t.root), t)
	}
	return g.browseRoot(w, r, t)
}

// browseOther redirects to the page of a name or a ticket that stands where an address belongs. It returns err if
// there is neither.
func browseOther(w *exchange.Response, r *http.Request, rest string, err error) error {
	key, t, bad := parsePath(rest)
	if bad != nil || !ticket.Is(key) && !isName(key) {
		return err
	}
	to, called, err := keyPage(key, t.names, t.slash)
	if err != nil {
		return err
	}
	return seeOther(w, r, to, called)
}

// browseRoot serves what t names below its root.
func (g *Handlers) browseRoot(w *exchange.Response, r *http.Request, t target) error {
	w.Root = t.root
	if err := g.denylist.Path(t.root, t.path()); err != nil {
		return err
	}
	return g.withStallTimeout(w, r, func(b *body) error { return g.browseTarget(b, r, t) })
}

// browseTarget serves the entry that t names, or redirects to its proper URL.
func (g *Handlers) browseTarget(b *body, r *http.Request, t target) error {
	reader := &manifestReader{g: g, b: b, r: r, top: t.root}
	defer reader.release()
	manifests := reader.nodes()
	if t.site != nil {
		return serveSite(g, b, r, t, manifests)
	}
	e, dir, err := g.lookup(b, t, manifests)
	if err != nil {
		return err
	}
	if err := g.denylist.Object(e.Root); err != nil && e.Kind != manifest.Link {
		return err
	}
	switch {
	case e.Kind == manifest.Link:
		return redirectLink(b.w, r, t, e.Target)
	case e.Kind == manifest.Directory && t.slash && !t.uneven:
		if dir == nil {
			if dir, err = manifests.Open(b.ctx, e.Root, indexPage); err != nil {
				return err
			}
		}
		return serveDirectory(g, b, r, t, dir)
	case e.Kind == manifest.Directory:
		return b.w.Redirect(r, http.StatusMovedPermanently, t.url(true))
	case t.slash && len(t.names) == 0:
		return b.w.Redirect(r, http.StatusMovedPermanently, t.url(false))
	case t.slash:
		return status.Errorf(status.NotFound,
			"cannot open %q as a directory: it is a file. Leave out the slash at the end", exchange.Clip(t.path()))
	}
	it := item{root: e.Root, name: path.Base("/" + t.path()), via: t.root, mount: t.mount}
	if t.uneven && kind.OfType(mediatype.OfName(it.name)) == kind.WebPage { // its relative links need its own URL
		return b.w.Redirect(r, http.StatusMovedPermanently, t.url(false))
	}
	if t.asset != "" {
		return serveAsset(g, b, r, it)
	}
	if r.URL.RawQuery != "" {
		view, err := pages.Choice(r.URL.Query(), "view", pages.ViewFile)
		if err != nil {
			return err
		}
		if view == pages.ViewFile {
			return g.preview(b, r, t, it, e.Executable)
		}
	}
	return g.content(b, r, it, g.objects.Memory(e.Root))
}

// lookup returns the entry that t names. A bare address names a directory if its bytes begin
// with the manifest magic and decode; otherwise it names a file. dir is nil unless t is the root directory.
func (g *Handlers) lookup(
	b *body, t target, manifests manifest.Nodes,
) (e manifest.Entry, dir *manifest.Dir, err error) {
	if t.path() == "" {
		dir, err = manifests.Open(b.ctx, t.root, indexPage)
		switch {
		case status.Of(err) == status.BadRequest:
			return manifest.Entry{Kind: manifest.File, Root: t.root}, nil, nil
		case err != nil:
			return e, nil, err
		}
		return manifest.Entry{Kind: manifest.Directory, Root: t.root}, dir, nil
	}
	e, err = manifests.Lookup(b.ctx, t.root, t.path())
	var missing *manifest.EntryError
	switch {
	case errors.As(err, &missing) && missing.Outcome == status.NotFound:
		return e, nil, status.Errorf(status.NotFound,
			"cannot find %q in %s: the directory has no such entry. Open the directory to see what it has",
			exchange.Clip(t.path()), shorten(t.root))
	case errors.Is(err, manifest.ErrNotManifest):
		return e, nil, status.Errorf(status.NotFound,
			"cannot find %q: %s is a file, not a directory. Open the address without a path",
			exchange.Clip(t.path()), shorten(t.root))
	}
	return e, nil, err
}

// redirectLink redirects to the target of the symbolic link t. A target outside the tree is
// not_found. A link to itself is hop_exceeded; clients detect longer loops themselves.
func redirectLink(w *exchange.Response, r *http.Request, t target, to string) error {
	link := strings.Join(t.names, "/")
	outside := func() error {
		return status.Errorf(status.NotFound, "cannot follow the link %q: it leads to %q, outside the directory",
			exchange.Clip(link), exchange.Clip(to))
	}
	if path.IsAbs(to) {
		return outside()
	}
	if len(t.names) == 0 { // the value of the name is a link
		return outside()
	}
	t.names = t.names[:len(t.names)-1]
	slash := t.slash
	for seg := range strings.SplitSeq(to, "/") {
		slash = slash || seg == ""
		switch {
		case seg == "" || seg == ".":
		case seg == ".." && len(t.names) == 0:
			return outside()
		case seg == "..":
			t.names = t.names[:len(t.names)-1]
		default:
			t.names = append(t.names, seg)
		}
	}
	if to := strings.Join(t.names, "/"); to == link || strings.HasPrefix(to, link+"/") {
		return status.Errorf(status.HopExceeded, "cannot follow the link %q: it leads to itself", exchange.Clip(link))
	}
	return w.Redirect(r, http.StatusMovedPermanently, t.url(slash || len(t.names) == 0))
}
