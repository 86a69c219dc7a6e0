package content

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"allium/gateway/content/kind"
	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/gateway/site"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The time in which caches need not ask again whether an address has moved to a host, and which address a domain has.
const (
	movedFor  = "public, max-age=3600"
	domainFor = "public, max-age=60"
)

// siteEndpoint is the route of the hosts of websites.
func siteEndpoint(g *Handlers) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "site", Name: "site", Methods: exchange.OfSites, Path: "/{path}",
		On: exchange.OnSites, AnyQuery: true, ErrorPages: true,
		Doc:     "Serves the website of a host. Each host is its own origin.",
		Headers: contentHeaders, Answers: browseAnswers, Fails: contentFails,
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return serveHost(g, w, r, in) },
	}
}

// ownHost reports whether a request is sent to the label host of what it names: it is a navigation of a browser, and
// the gateway has such hosts. Programs go on with the path.
func ownHost(r *http.Request, in exchange.Input) bool {
	if in.Gateway == "" {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return exchange.WantsPage(r)
}

// redirectToHost redirects to the host of a root or a name, with the rest of the path.
func redirectToHost(
	g *Handlers, w *exchange.Response, r *http.Request, in exchange.Input, k site.Key, t target,
) error {
	t.site = &site.Site{}
	w.Header().Set("Vary", "Accept, Sec-Fetch-Mode")
	w.Caching = movedFor
	return w.Redirect(r, http.StatusMovedPermanently, "//"+g.hosts.HostOf(k, in.Gateway)+t.url(t.slash))
}

// serveHost serves a request to the host of a website.
func serveHost(g *Handlers, w *exchange.Response, r *http.Request, in exchange.Input) error {
	s := in.Site
	if s.Domain != "" {
		var err error
		s, err = g.hosts.Linked(r.Context(), s.Domain, func(ctx context.Context) (func(), error) {
			w.ReleaseAdmission()
			return g.AcquireFetch(ctx, w)
		})
		if err != nil {
			return err
		}
	}
	t, err := parseNamed("x/" + in.Rest)
	if err != nil {
		return err
	}
	t.name, t.site, t.below, t.root = "", s, s.Path, s.Key.Root
	t.uneven = t.uneven || in.Uneven
	if !t.root.IsZero() {
		if s.Moves {
			w.Caching = domainFor
		}
		return g.browseRoot(w, r, t)
	}
	name, ok := g.hosts.NameOf(s.Key)
	if !ok {
		return status.Errorf(status.NotFound, "this host has the hash of a name that the node does not remember. "+
			"Open the name at the gateway, /n/NAME, which leads here")
	}
	t.name = name
	return browseNamed(g, w, r, name, t)
}

// serveSite serves the page of a website that t names.
func serveSite(g *Handlers, b *body, r *http.Request, t target, manifests manifest.Nodes) error {
	files := &siteFiles{g, b, t, manifests}
	rules, err := siteRules(g, b, r, files)
	if err != nil {
		return err
	}
	headers := rules.Headers.For(t.names)
	if r.Method == http.MethodOptions {
		return options(b.w, headers)
	}
	if rules.File {
		if len(t.names) > 0 {
			return status.Errorf(status.NotFound, "cannot find %q: the site is one file. Open its first page",
				exchange.Clip(strings.Join(t.names, "/")))
		}
		it := item{root: t.root, via: t.root, page: &site.Page{Code: http.StatusOK}}
		return g.content(b, r, it, g.objects.Memory(it.root))
	}
	if t.uneven {
		return redirectSite(b.w, r, http.StatusMovedPermanently, t.url(t.slash), headers)
	}
	slash := t.slash || len(t.names) == 0
	a, err := rules.Answer(b.ctx, files, t.names, slash)
	switch {
	case err != nil:
		return err
	case a.Missing:
		return a.Err(t.names)
	case a.Redirects():
		to := a.Location(exchange.EscapeQuery(r.URL.RawQuery))
		r.URL.RawQuery = ""
		return redirectSite(b.w, r, a.Code, to, headers)
	}
	it := item{root: a.Entry.Root, name: a.Entry.Name, via: t.root}
	it.page = &site.Page{Code: a.Code, Headers: headers}
	t.names = a.Path // of the entry; the client sees the URL that it asked for
	if err := g.denylist.Path(t.root, t.path()); err != nil {
		return err
	}
	switch a.Entry.Kind {
	case manifest.Link:
		allowRedirect(b.w.Header(), headers)
		return redirectLink(b.w, r, t, a.Entry.Target)
	case manifest.Directory:
		if !slash {
			return redirectSite(b.w, r, http.StatusMovedPermanently, t.url(true), headers)
		}
		dir, err := manifests.Open(b.ctx, a.Entry.Root, indexPage)
		if err != nil {
			return err
		}
		return serveDirectory(g, b, r, t, dir)
	}
	if err := g.denylist.Object(it.root); err != nil {
		return err
	}
	if k := kind.OfType(mediatype.OfName(it.name)); k != kind.WebPage && r.URL.RawQuery == filePage(kind.File)[1:] {
		return g.preview(b, r, t, it, a.Entry.Executable)
	}
	return g.content(b, r, it, g.objects.Memory(it.root))
}

// redirectSite redirects to a path, or to elsewhere if the rules of the site say so.
func redirectSite(w *exchange.Response, r *http.Request, code int, to string, headers []site.Header) error {
	allowRedirect(w.Header(), headers)
	return w.Redirect(r, code, to)
}

// allowRedirect sets, of the headers that the site has for a path, those with which a page of another origin may follow
// a redirect: the browser asks for them at each step.
func allowRedirect(h http.Header, headers []site.Header) {
	for _, one := range headers {
		if strings.HasPrefix(one.Name, "Access-Control-") {
			h.Set(one.Name, one.Value)
		}
	}
}

// options answers OPTIONS with the headers that the site has for a path, whether or not a page is there: those that a
// browser asks for before it lets a page of another origin send a request.
func options(w *exchange.Response, headers []site.Header) error {
	(&site.Page{Code: http.StatusOK, Headers: headers}).SetHeaders(w.Header())
	w.Header().Set("Allow", strings.Join(exchange.OfSites, ", "))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// siteFiles finds the entries of a website, for one request. It implements [site.Files].
type siteFiles struct {
	g         *Handlers
	b         *body
	t         target
	manifests manifest.Nodes
}

// Entry implements [site.Files].
func (f *siteFiles) Entry(ctx context.Context, path []string) (e manifest.Entry, found bool, err error) {
	for _, name := range path {
		if manifest.NameProblem(name) != "" {
			return e, false, nil
		}
	}
	if len(path)+len(f.t.below) == 0 {
		return manifest.Entry{Kind: manifest.Directory, Root: f.t.root}, true, nil // siteRules has looked
	}
	full := strings.Join(slices.Concat(f.t.below, path), "/")
	e, err = f.manifests.Lookup(ctx, f.t.root, full)
	var missing *manifest.EntryError
	if errors.As(err, &missing) && missing.Outcome == status.NotFound {
		return e, false, nil
	}
	return e, err == nil, err
}

// siteRules returns the rules of a website, which are read once for each root.
func siteRules(g *Handlers, b *body, r *http.Request, files *siteFiles) (*site.Rules, error) {
	at := site.At{Root: files.t.root, Path: strings.Join(files.t.below, "/")}
	rules, err, ok := g.rules.Get(at)
	if !ok {
		read, size, wrong, failed := readRules(g, b, r, files)
		if failed != nil {
			return nil, failed
		}
		g.rules.Add(at, read, wrong, size)
		rules, err = read, wrong
	}
	if err != nil || rules.CleanURLs || !files.t.site.CleanURLs {
		return rules, err
	}
	clean := *rules
	clean.CleanURLs = true
	return &clean, nil
}

// readRules reads and parses the files of a website. wrong says what is wrong with them.
func readRules(
	g *Handlers, b *body, r *http.Request, files *siteFiles,
) (rules *site.Rules, size int, wrong, err error) {
	rules = &site.Rules{}
	for _, name := range site.RuleFiles {
		text, err := readSmall(g, b, r, files, name)
		if errors.Is(err, manifest.ErrNotManifest) && len(files.t.below) == 0 {
			return &site.Rules{File: true}, 0, nil, nil
		}
		if err != nil {
			return nil, 0, nil, err
		}
		if text == nil {
			continue
		}
		size += len(text)
		if wrong := rules.Read(name, text); wrong != nil {
			return rules, size, wrong, nil
		}
	}
	return rules, size, nil, nil
}

// readSmall returns the beginning of a file in the root of a website, one byte more than it may have, or nil if there
// is none.
func readSmall(g *Handlers, b *body, r *http.Request, files *siteFiles, name string) ([]byte, error) {
	e, found, err := files.Entry(b.ctx, []string{name})
	if err != nil || !found || e.Kind != manifest.File {
		return nil, err
	}
	if all := g.objects.Memory(e.Root); all != nil && g.denylist.Object(e.Root) == nil {
		return all[:min(len(all), site.MaxFile+1)], nil
	}
	c, err := g.open(b, r, e.Root, OpenOptions{Via: files.t.root})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	text := make(headBuffer, 0, min(c.Size(), site.MaxFile+1))
	err = c.Copy(b.ctx, &text, 0, min(c.Size(), site.MaxFile+1))
	return text, err
}
