package node_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// TestBadBucket: an object that is bad in the bucket is served from a peer that has it, without an
// error to the client, and is put into the bucket again. As long as no peer has it, it is listed as
// damage and not served.
func TestBadBucket(t *testing.T) {
	noLeaks(t)
	g := storetest.StartS3(t)
	bucket := g.Config()
	a := start(t, nil)
	b := start(t, func(c *config.Config) {
		joining(a)(c)
		c.Store.Backend, c.Store.S3 = store.BackendS3, bucket
	})
	const size = 6*b3.GroupSize + 100
	flip := func(at int) func(t *testing.T, name string) {
		return func(t *testing.T, name string) {
			p, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p[at] ^= 1
			if err := os.WriteFile(name, p, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, test := range []struct {
		name   string
		spoil  func(t *testing.T, name string)
		listed bool // no peer has it at first
	}{
		{"the first byte", flip(0), true},
		{"a byte in the middle", flip(3*b3.GroupSize + 5), false},
		{"the last byte", flip(size - 1), false},
		{"short", func(t *testing.T, name string) {
			if err := os.Truncate(name, 2*b3.GroupSize); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"longer, with other bytes", func(t *testing.T, name string) {
			if err := os.WriteFile(name, bytes.Repeat([]byte("framing\r\n"), size), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"gone", func(t *testing.T, name string) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		root, p := addBytes(t, b, byte(i), size)
		hex := root.Hex()
		key := "o/" + hex[:2] + "/" + hex
		there := g.Path(bucket, key)
		if got, err := os.ReadFile(there); err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%s: before, the bucket has %d bytes, %v", test.name, len(got), err)
		}
		test.spoil(t, there)
		if test.listed {
			code, kind, _, _ := fetchHTTP(t, b, root)
			if code != http.StatusBadGateway || !strings.HasPrefix(kind, "application/problem+json") {
				t.Errorf("%s: without a peer: %d %s", test.name, code, kind)
			}
			r := listedDamage(t, b)
			if r.Open != 0 || r.Objects != 1 || len(r.Damage) != 1 || r.Damage[0].Kind != "object" ||
				r.Damage[0].State != "open" || r.Damage[0].File != key || r.Damage[0].Roots[0] != root ||
				!strings.Contains(r.Damage[0].Cause, "bucket") {
				t.Errorf("%s: the damage is %+v", test.name, r)
			}
		}
		if other, _ := addBytes(t, a, byte(i), size); other != root {
			t.Fatal("another object")
		}
		if test.listed { // that no peer has it is remembered for a moment
			testkit.Eventually(t, "a peer that has it", func() bool {
				code, _, _, _ := fetchHTTP(t, b, root)
				return code == http.StatusOK
			})
		}
		if code, _, got, err := fetchHTTP(t, b, root); code != http.StatusOK || err != nil || !bytes.Equal(p, got) {
			t.Errorf("%s: %d, %d bytes, %v, %.300s", test.name, code, len(got), err, got[:min(len(got), 300)])
		}
		testkit.Eventually(t, "the bucket to be mended: "+test.name, func() bool {
			got, err := os.ReadFile(there)
			return err == nil && bytes.Equal(got, p) && listedDamage(t, b).Objects == 0
		})
		if code, _, got, err := fetchHTTP(t, b, root); code != http.StatusOK || err != nil || !bytes.Equal(p, got) {
			t.Errorf("%s: from the bucket again: %d, %d bytes, %v", test.name, code, len(got), err)
		}
	}
}

// listedDamage returns what `store damage` lists.
func listedDamage(t *testing.T, n *running) api.DamageReport {
	t.Helper()
	r, err := n.api.Damage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}
