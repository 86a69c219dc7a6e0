package names

import (
	"strings"
	"testing"
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/lookup"
	"allium/resolver/names/zones"
)

// FuzzKey: whatever a person writes as a key is an address, a name that is found, or refused with an
// outcome that says why. What was found for a name is the same for its normal form.
func FuzzKey(f *testing.F) {
	zone := name.Zone{7}
	for _, key := range []string{
		root, root + "/a/b.txt", strings.ToUpper(root), root[:20], "", ".", "..", "/", "blog.alice", "BLOG.Alice/img",
		"blog." + zone.String(), "blog." + zone.ID().String(), "a.b.c", "bl\u043eg.alice",
		"blog.alice\x00", "blog..alice",
		"../blog.alice", "blog.alice/../../x", "xn--blg-hoa.alice", strings.Repeat("a", 10<<10) + ".alice",
	} {
		f.Add(key)
	}
	z, err := zones.Open(f.TempDir(), zones.Config{}, false)
	if err != nil {
		f.Fatal(err)
	}
	alice, err := name.ParseShort("alice")
	if err != nil {
		f.Fatal(err)
	}
	if err := z.SetPetname(f.Context(), alice, zone); err != nil {
		f.Fatal(err)
	}
	short, err := z.ShortNames()
	if err != nil {
		f.Fatal(err)
	}
	r := New(fixed{short}, records{"blog": root}, nil, nil, time.Now)
	f.Fuzz(func(t *testing.T, key string) {
		got, err := r.Resolve(t.Context(), key, lookup.Options{})
		switch o := status.Of(err); o {
		case status.OK:
		case status.BadAddress, status.BadRequest, status.NotFound:
			return
		default:
			t.Fatalf("%q: %s: %v", key, o, err)
		}
		if got.Root.IsZero() || strings.HasPrefix(got.Path, "/") || strings.HasSuffix(got.Path, "/") {
			t.Errorf("%q: %+v", key, got)
		}
		if got.Name == nil {
			return
		}
		again, err := r.Resolve(t.Context(),
			strings.TrimSuffix(got.Name.Name.String()+"/"+got.Path, "/"), lookup.Options{})
		if err != nil || again.Name == nil || again.Name.Name != got.Name.Name || again.Path != got.Path {
			t.Errorf("%q: %+v, then %+v, %v", key, got, again, err)
		}
	})
}
