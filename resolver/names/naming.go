// Package names turns the keys that people write into addresses: b3:<hex>[/path] as it is, and <label>.<zone>[/path]
// through the short names of this home and the records of the zone (SPEC §6). If neither the petnames nor a zone map
// has a short name, the DNS is asked, if that is allowed.
//
// One key: [Resolver.Resolve] splits blog.alice/img/a.png into the name and the path. The short
// name alice is a petname, so the name is blog in the zone of alice's key. The resolver finds the
// record, which says b3:af13…/site. The answer is the address b3:af13… and the path
// site/img/a.png.
package names

import (
	"context"
	"errors"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/dnslink"
	"allium/resolver/names/lookup"
	"allium/resolver/names/zones"
	"allium/resolver/trace"
)

// ShortNames expands the short names of this home.
type ShortNames interface {
	Expand(text string, now time.Time) (name.Name, zones.Found, error)
	// Look reads again what has changed, and waits for that.
	Look(ctx context.Context) error
}

// lookTimeout bounds the wait for changed petnames when a short name is not known.
const lookTimeout = time.Second

// Names finds what names stand for.
type Names interface {
	ResolveName(ctx context.Context, n name.Name, opt lookup.Options) (lookup.Answer, error)
	// CachedName returns what a name stands for if that is remembered and fresh, or as stale as
	// maxStale allows. It does not wait.
	CachedName(n name.Name, maxStale time.Duration) (a lookup.Answer, ok bool)
}

// Resolver turns keys into addresses. Its methods are safe for concurrent use.
type Resolver struct {
	short ShortNames
	names Names
	dns   DNS // nil: it is not asked
	ring  *trace.Ring
	now   func() time.Time
}

// DNS finds what domains stand for; see [dnslink.Resolver].
type DNS interface {
	Lookup(ctx context.Context, domain string) (dnslink.Link, error)
}

// New returns a resolver. dns may be nil: then the DNS is not asked. ring records what the DNS said, and may
// be nil. now is the clock that decides whether zone maps have expired.
func New(short ShortNames, n Names, dns DNS, ring *trace.Ring, now func() time.Time) *Resolver {
	return &Resolver{short: short, names: n, dns: dns, ring: ring, now: now}
}

// Target is the address that a key names, and a path below it.
type Target struct {
	Root b3.Root
	Path string // without slashes at its ends

	// Of a key that is a name:
	Name   *lookup.Answer // nil otherwise
	Origin zones.Found    // where its zone was found

	Links []dnslink.Link // of a domain: what the DNS said, from the domain on
}

// IsName reports whether a key is a name and not an address.
func IsName(key string) bool {
	first, _, _ := strings.Cut(key, "/")
	return strings.Contains(first, ".") && !strings.HasPrefix(first, "b3:")
}

// Address parses a key "b3:<hex>[/path]".
func Address(key string) (Target, error) {
	addr, path, _ := strings.Cut(key, "/")
	root, err := b3.Parse(addr)
	return Target{Root: root, Path: strings.Trim(path, "/")}, err
}

// Expand returns the name that text stands for. A short name that is not known is looked for in the
// files again, within a second.
func (r *Resolver) Expand(ctx context.Context, text string) (name.Name, error) {
	n, _, err := r.expand(ctx, text)
	return n, err
}

// Recorded returns under which name the lookups of text are recorded: with the key of its zone, or a domain
// in its one form. ok is false if text is neither.
func (r *Resolver) Recorded(ctx context.Context, text string) (key string, ok bool) {
	n, err := r.Expand(ctx, text)
	if err == nil {
		return n.String(), true
	}
	return r.asDomain(ctx, text, err)
}

// asDomain returns text as a domain that the DNS may be asked for. err is why text is no name: its zone is
// not known, or its first part is no label and its zone is not known either. ok is false for all others.
func (r *Resolver) asDomain(ctx context.Context, text string, err error) (domain string, ok bool) {
	if r.dns == nil {
		return "", false
	}
	var bad *name.LabelError
	if errors.As(err, &bad) { // host names have more characters than labels
		_, zone, _ := strings.Cut(text, ".")
		_, _, err = r.expand(ctx, "x."+zone)
	}
	if status.Of(err) != status.NotFound {
		return "", false
	}
	return dnslink.Domain(text)
}

// Addresses understands addresses alone.
type Addresses struct{ Without string } // why names are not understood, and what to do

// Resolve returns what an address names, and not_ready for a name.
func (a Addresses) Resolve(_ context.Context, key string, _ lookup.Options) (Target, error) {
	if IsName(key) {
		return Target{}, status.Errorf(status.NotReady, "%s", a.Without)
	}
	return Address(key)
}

// Resolve returns what a key names. The errors of a name are those of [zones.ShortNames.Expand] and
// of [lookup.Names.Resolve], and bad_request if its value is text.
func (r *Resolver) Resolve(ctx context.Context, key string, opt lookup.Options) (Target, error) {
	if !IsName(key) {
		return Address(key)
	}
	text, path, _ := strings.Cut(key, "/")
	n, found, err := r.expand(ctx, text)
	if err != nil {
		if domain, ok := r.asDomain(ctx, text, err); ok {
			return r.domain(ctx, domain, path, opt)
		}
		return Target{}, err
	}
	a, err := r.names.ResolveName(ctx, n, opt)
	t := Target{Name: &a, Origin: found}
	if err != nil {
		return t, err
	}
	return t, t.follow(path)
}

// expand returns the name that text stands for. A short name that is not known may just have been
// given.
func (r *Resolver) expand(ctx context.Context, text string) (name.Name, zones.Found, error) {
	n, found, err := r.short.Expand(text, r.now())
	if status.Of(err) != status.NotFound {
		return n, found, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if r.short.Look(ctx) != nil {
		return n, found, err
	}
	return r.short.Expand(text, r.now())
}

// Cached returns what Resolve would for a name that is remembered and fresh, or as stale as maxStale
// allows. It does not wait.
func (r *Resolver) Cached(text string, maxStale time.Duration) (t Target, ok bool) {
	n, found, err := r.short.Expand(text, r.now())
	if err != nil {
		return t, false
	}
	a, ok := r.names.CachedName(n, maxStale)
	if !ok {
		return t, false
	}
	t = Target{Name: &a, Origin: found}
	return t, t.follow("") == nil
}

// follow sets the address that the value of the name is, and the path below it.
func (t *Target) follow(path string) error {
	root, below, ok := t.Name.Value.Address()
	if !ok {
		return status.Errorf(status.BadRequest, "the value of %s is the text %.80q, which is no address",
			t.Name.Name, t.Name.Value)
	}
	t.Root, t.Path = root, strings.Trim(below+"/"+strings.Trim(path, "/"), "/")
	return nil
}
