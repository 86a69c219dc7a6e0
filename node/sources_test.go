package node_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/node/config"
	"allium/protocols/status"
)

// provided starts a node that has nothing and n that hold the same random file
// of size bytes, each sending at most rate per second, and returns the address.
func provided(t *testing.T, n int, size int64, rate string) (asker *running, providers []*running, key string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	data := make([]byte, size)
	_, _ = rand.Read(data)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	asker = start(t, nil)
	for range n {
		p := start(t, func(c *config.Config) {
			joining(asker)(c)
			c.Node.LimitLAN = true
			if err := c.Node.UploadRate.UnmarshalText([]byte(rate)); err != nil {
				t.Fatal(err)
			}
		})
		key = add(t, p, file)[0].Root.String()
		_, err := p.api.Announce(t.Context(), key)
		if status.Of(err) == status.Stale { // the node announced it by itself meanwhile, with a later record
			_, err = p.api.Announce(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
		providers = append(providers, p)
	}
	return asker, providers, key
}

// TestProvidersServeTogether fetches from three nodes that are slow each.
func TestProvidersServeTogether(t *testing.T) {
	noLeaks(t)
	const size = 24 << 20
	asker, providers, key := provided(t, 3, size, "4MB")
	f, err := asker.api.Fetch(t.Context(), key, nil)
	if err != nil || f.Bytes != size || f.New != size {
		t.Fatalf("%+v, %v", f, err)
	}
	var all int64
	for i, p := range providers {
		sent := metric(t, p, `object_bytes_total{dir="out"`)
		if sent < size/16 { // who is slow on a busy machine is given less
			t.Errorf("provider %d sent %d bytes of %d", i, sent, size)
		}
		all += sent
	}
	if all > size*5/4 {
		t.Errorf("%d bytes were sent for %d", all, size)
	}
}

// TestProviderIsKilled loses one of two in the middle.
func TestProviderIsKilled(t *testing.T) {
	noLeaks(t)
	const size = 16 << 20
	asker, providers, key := provided(t, 2, size, "4MB")
	var kill sync.Once
	var stopped sync.WaitGroup
	defer stopped.Wait()
	f, err := asker.api.Fetch(t.Context(), key, func(p api.Progress) {
		if p.Bytes > size/4 {
			kill.Do(func() {
				stopped.Go(func() {
					if err := providers[0].stop(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	})
	if err != nil || f.Bytes != size {
		t.Fatalf("%+v, %v", f, err)
	}
	if sent := metric(t, providers[1], `object_bytes_total{dir="out"`); sent < size/16 {
		t.Errorf("the one that stayed sent %d bytes", sent)
	}
}
