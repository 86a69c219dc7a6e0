package names

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/env"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/lookup"
	"allium/resolver/names/zones"
)

const root = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

// records answers with the values it is given.
type records map[string]string // by label

// ResolveName implements Names.
func (r records) ResolveName(_ context.Context, n name.Name, opt lookup.Options) (lookup.Answer, error) {
	a := lookup.Answer{Name: n}
	text, ok := r[n.Label.String()]
	if !ok || opt.Fresh {
		return a, status.Errorf(status.NotFound, "no record of %s was found", n)
	}
	var err error
	a.Value, err = name.ParseValue(text)
	a.Chain = []name.Signed{{Record: name.Record{Name: n, Value: a.Value}}}
	return a, err
}

// CachedName implements Names.
func (r records) CachedName(n name.Name, _ time.Duration) (lookup.Answer, bool) {
	a, err := r.ResolveName(context.TODO(), n, lookup.Options{})
	return a, err == nil
}

// fixed is short names that do not change.
type fixed struct{ *zones.ShortNames }

// Look implements ShortNames.
func (fixed) Look(context.Context) error { return nil }

// TestJustGiven: a petname that was given a moment ago is known.
func TestJustGiven(t *testing.T) {
	z, err := zones.Open(t.TempDir(), zones.Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	w, err := z.Watch(env.Env{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, func() {}) }()
	defer func() { cancel(); <-done }()
	r := New(w, records{"blog": root}, nil, nil, time.Now)
	alice, err := name.ParseShort("alice")
	if err != nil {
		t.Fatal(err)
	}
	zone, err := z.New(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Resolve(t.Context(), "blog.alice", lookup.Options{}); err != nil || got.Origin.Zone != zone {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestResolve(t *testing.T) {
	home := t.TempDir()
	z, err := zones.Open(home, zones.Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	alice, err := name.ParseShort("alice")
	if err != nil {
		t.Fatal(err)
	}
	if err := z.SetPetname(t.Context(), alice, zone); err != nil {
		t.Fatal(err)
	}
	short, err := z.ShortNames()
	if err != nil {
		t.Fatal(err)
	}
	all := records{"blog": root, "site": root + "/public", "text": "hello", "gone": ""}
	r := New(fixed{short}, all, nil, nil, time.Now)
	for _, c := range []struct {
		key, path string
		want      status.Outcome
		isName    bool
	}{
		{root, "", status.OK, false},
		{root + "/a/b.txt", "a/b.txt", status.OK, false},
		{root + "/a.b/", "a.b", status.OK, false},
		{"b3:xyz.abc", "", status.BadAddress, false},
		{"abc", "", status.BadAddress, false},
		{"", "", status.BadAddress, false},
		{"blog.alice", "", status.OK, true},
		{"BLOG.alice/img/a.png", "img/a.png", status.OK, true},
		{"blog." + zone.String() + "/a", "a", status.OK, true},
		{"site.alice", "public", status.OK, true},
		{"site.alice/a/b/", "public/a/b", status.OK, true},
		{"text.alice", "", status.BadRequest, true},
		{"gone.alice", "", status.BadRequest, true},
		{"nothing.alice", "", status.NotFound, true},
		{"blog.bob", "", status.NotFound, false},
		{"blog.", "", status.BadAddress, false},
		{".alice", "", status.BadAddress, false},
		{"blog.example.org", "", status.NotFound, false},
	} {
		got, err := r.Resolve(t.Context(), c.key, lookup.Options{})
		if status.Of(err) != c.want || got.Path != c.path || (got.Name != nil) != c.isName {
			t.Errorf("%q: %s with the path %q, %v", c.key, got.Root, got.Path, err)
		}
		if err == nil && got.Root.String() != root {
			t.Errorf("%q is %s", c.key, got.Root)
		}
		_, err = Addresses{Without: "there is no node"}.Resolve(t.Context(), c.key, lookup.Options{})
		if IsName(c.key) && status.Of(err) != status.NotReady || !IsName(c.key) && status.Of(err) != c.want {
			t.Errorf("%q without names: %v", c.key, err)
		}
	}
	got, err := r.Resolve(t.Context(), "blog.alice", lookup.Options{})
	if err != nil || got.Origin.Origin != zones.FromPetname || got.Origin.Short != alice || got.Name.Name.Zone != zone {
		t.Errorf("%+v, %v", got, err)
	}
	for key, want := range map[string]string{"site.alice": "public", "blog.alice": ""} {
		if got, ok := r.Cached(key, 0); !ok || got.Root.String() != root || got.Path != want {
			t.Errorf("%s is remembered as %s with the path %q: %t", key, got.Root, got.Path, ok)
		}
	}
	for _, key := range []string{"text.alice", "gone.alice", "nothing.alice", "blog.bob", root} {
		if got, ok := r.Cached(key, 0); ok {
			t.Errorf("%s is remembered as %s", key, got.Root)
		}
	}
	if _, err := r.Resolve(t.Context(), "blog.alice", lookup.Options{Fresh: true}); status.Of(err) != status.NotFound {
		t.Errorf("the options are not passed on: %v", err)
	}
}
