package content

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/gateway/content/dates"
	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Names finds what names stand for. Every error carries an outcome. Its methods may be called
// from any goroutine.
type Names interface {
	hosts.DNS
	// CachedName returns the answer to ResolveName when the node remembers it. It does not wait.
	CachedName(text string, maxStale time.Duration) (n Named, ok bool)
	// ResolveName finds the address that a name, LABEL.ZONE, stands for. A record that ended at most
	// maxStale ago is an answer too; the node looks the name up behind it.
	ResolveName(ctx context.Context, text string, maxStale time.Duration) (Named, error)
}

// Named is the object that a name stands for, and how fresh that answer is.
type Named struct {
	Root     b3.Root
	Path     string        // below Root, without slashes at its ends
	TTL      time.Duration // how long the answer may be remembered
	Stale    bool          // a record is older than its TTL, or has expired; TTL is 0 then
	Age      time.Duration // since the network was asked
	Signed   time.Time     // when the latest record on the way was signed; zero: unknown, as the DNS does not tell
	LookupID status.LookupID
}

// browseNameEndpoint is the route of /n/, which answers as /b3/ does.
func (g *Handlers) browseNameEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "browseName", Name: "name", Methods: exchange.Reading, Path: "/n/{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows a file or a directory by a name. {path} is LABEL.ZONE and a path below it.",
		More: "The answer is that of /b3/ for the address that the name stands for, with the same ETag; " +
			"Cache-Control is the time for which the record of the name may be kept. A record that has ended is " +
			"used if max-stale of Cache-Control allows it; the answer has an Age then. The zone is its key, or " +
			"a short name of this node.",
		Params:  browseParams,
		Headers: contentHeaders,
		Answers: withAge(browseAnswers),
		Fails: append(slices.Clone(contentFails),
			status.Gone, status.Stale, status.Equivocation, status.HopExceeded, status.Unsupported,
			status.BodyCap),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return g.browseName(w, r, in)
		},
	}
}

// withAge returns answers that may also have an Age.
func withAge(answers []exchange.Reply) []exchange.Reply {
	answers = slices.Clone(answers)
	for i := range answers {
		answers[i].Headers = append(slices.Clone(answers[i].Headers), "Age")
	}
	return answers
}

// browseName serves /n/{name}/{path…}: what browse serves for the address that the name stands
// for. Only the time for which a client may keep the answer differs: it is that of the record.
func (g *Handlers) browseName(w *exchange.Response, r *http.Request, in exchange.Input) error {
	t, err := parseNamed(in.Rest)
	if err != nil {
		return err
	}
	t.uneven = t.uneven || in.Uneven
	if lower := strings.ToLower(t.name); lower != t.name {
		t.name, t.rewritten = lower, true
	}
	w.Caching = "no-cache"
	switch {
	case t.rewritten:
		return w.Redirect(r, http.StatusPermanentRedirect, t.url(t.slash))
	case ownHost(r, in):
		k := site.OfName(t.name)
		if k.Hashed() { // an invalid name is not remembered, so it displaces no valid one
			if _, err := g.names.resolve(w, r, t.name); err != nil {
				return err
			}
		}
		return redirectToHost(g, w, r, in, k, t)
	}
	return browseNamed(g, w, r, t.name, t)
}

// browseNamed serves what t names below the value of a name.
func browseNamed(g *Handlers, w *exchange.Response, r *http.Request, name string, t target) error {
	w.Caching = "no-cache"
	n, err := g.names.resolve(w, r, name)
	if n.LookupID != 0 {
		w.LookupID = n.LookupID
	}
	if err != nil {
		return err
	}
	r = r.WithContext(status.WithParent(r.Context(), n.LookupID))
	w.Caching = exchange.MaxAge(n.TTL)
	w.Modified = g.names.dates.Of(name, dates.Value{Root: n.Root, Path: n.Path, Signed: n.Signed}, time.Now())
	if n.Stale {
		w.Header().Set("Age", strconv.FormatInt(int64(n.Age/time.Second), 10))
	}
	t.root = n.Root
	if n.Path != "" {
		t.below = append(strings.Split(n.Path, "/"), t.below...)
	}
	return g.browseRoot(w, r, t)
}

// naming finds the values of names, and remembers when they changed.
type naming struct {
	Names
	dates *dates.Dates
	s     *source
}

// resolve finds the value of a name. If the node does not remember the name, it needs the network, and so a permit
// of gateway.misses.
func (n *naming) resolve(w *exchange.Response, r *http.Request, name string) (Named, error) {
	maxStale := exchange.MaxStale(r)
	if found, ok := n.CachedName(name, maxStale); ok {
		return found, nil
	}
	w.ReleaseAdmission()
	leave, err := n.s.AcquireFetch(r.Context(), w)
	if err != nil {
		return Named{}, err
	}
	defer leave()
	found, err := n.ResolveName(r.Context(), name, maxStale)
	return found, w.LookupFailed(fmt.Sprintf("resolve the name %q", exchange.Clip(name)), err)
}

// noNames is a node that resolves no names.
type noNames struct{}

// DomainKey implements Names.
func (noNames) DomainKey(context.Context, string) (string, error) { return "", hosts.ErrNoLink }

// CachedName implements Names.
func (noNames) CachedName(string, time.Duration) (n Named, ok bool) { return n, false }

// ResolveName implements Names.
func (noNames) ResolveName(context.Context, string, time.Duration) (Named, error) {
	return Named{}, status.Errorf(status.Unsupported, "this node resolves no names")
}
