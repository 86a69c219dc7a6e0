package node_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// addBytes adds one file of random bytes.
func addBytes(t testing.TB, n *running, seed byte, size int) (b3.Root, []byte) {
	t.Helper()
	p := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(p) // never fails
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, p, 0o644); err != nil {
		t.Fatal(err)
	}
	return add(t, n, name)[0].Root, p
}

// rot flips a bit of a large object on n's disk.
func rot(t *testing.T, n *running, root b3.Root, at int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(n.home, "store", "obj", root.Hex()[:2], root.Hex()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x20
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// fetchHTTP reads an object through n's gateway, as far as it comes.
func fetchHTTP(t *testing.T, n *running, root b3.Root) (code int, kind string, got []byte, err error) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.ID().Gateway+"/o/"+root.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Content-Type"), got, err
}

// TestRottenBytesStay: of an object that rots on the disk nothing wrong leaves
// the node: not by HTTP, not to a peer, not through the local API. When it is the
// first group that is wrong, no header promises the object.
func TestRottenBytesStay(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	const size = 6*b3.GroupSize + 100
	for i, at := range []int64{17, 4*b3.GroupSize + 5, size - 1} {
		seed := byte(10 * i)
		t.Run("http", func(t *testing.T) {
			root, p := addBytes(t, a, seed, size)
			rot(t, a, root, at)
			code, kind, got, err := fetchHTTP(t, a, root)
			if at < b3.GroupSize {
				if code != http.StatusBadGateway && code != http.StatusNotFound ||
					!strings.HasPrefix(kind, "application/problem+json") {
					t.Errorf("group 0 is wrong: %d, %s, %q", code, kind, got)
				}
			} else if code != http.StatusOK || err == nil || !bytes.HasPrefix(p, got) {
				t.Errorf("byte %d is wrong: %d, %d bytes, %v", at, code, len(got), err)
			}
			if code, _, _, _ := fetchHTTP(t, a, root); code == http.StatusOK {
				t.Error("it is served a second time")
			}
		})
		t.Run("peer", func(t *testing.T) {
			root, _ := addBytes(t, a, seed+1, size)
			awaitProvider(t, b, root.String())
			rot(t, a, root, at)
			if _, err := b.api.Fetch(t.Context(), root.String(), nil); err == nil {
				t.Error("it was fetched")
			}
			if s, err := b.api.Stat(t.Context(), root.String()); err == nil && s.Local {
				t.Error("it was kept")
			}
			for v, err := range a.api.Verify(t.Context(), root.String(), api.VerifyOptions{}) {
				if err != nil || v.Error == nil {
					t.Errorf("%+v, %v", v, err)
				}
			}
		})
		t.Run("api", func(t *testing.T) {
			root, p := addBytes(t, a, seed+2, size)
			rot(t, a, root, at)
			s, err := a.api.Get(t.Context(), root.String())
			if err == nil {
				var got []byte
				got, err = io.ReadAll(s.Body)
				s.Body.Close()
				if !bytes.HasPrefix(p, got) {
					t.Error("wrong bytes")
				}
			}
			if status.Of(err) != status.Corrupt {
				t.Errorf("get says %v", err)
			}
		})
	}
}

// TestRepairIsPaced: of an object that is repaired no more comes than the rate
// allows, though its provider could send it at once.
func TestRepairIsPaced(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, func(c *config.Config) {
		joining(a)(c)
		c.Store.RepairRate = 4 << 20
	})
	const size, ahead = 10 << 20, 1 << 20 // store.repair_rate for a quarter of a second
	root, _ := addBytes(t, a, 1, size)
	awaitProvider(t, b, root.String())
	if _, err := b.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	rot(t, b, root, 3*b3.GroupSize)
	repaired := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for v, err := range b.api.Verify(t.Context(), root.String(), api.VerifyOptions{Repair: true}) {
			if err == nil && !v.Repaired {
				err = fmt.Errorf("%+v", v)
			}
			repaired <- err
			return
		}
	})
	for {
		came := metric(t, b, `resolver_received_bytes_total{type="range"`)
		counted := metric(t, b, `repair_bytes_total{kind="damage"}`) // later, so what came meanwhile does no harm
		if came > counted+ahead+2*b3.GroupSize {
			t.Fatalf("%d bytes came, and %d are paid for", came, counted)
		}
		select {
		case err := <-repaired:
			if err != nil {
				t.Fatal(err)
			}
			if came == 0 || metric(t, b, `repair_bytes_total{kind="damage"}`) < size {
				t.Errorf("nothing was seen: %d came", came)
			}
			return
		default:
		}
	}
}

// TestRepair: what rots is replaced by the copy that a provider has, when it is
// read and when it is asked for, and is then served from here again.
func TestRepair(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	const size = 6*b3.GroupSize + 100
	root, p := addBytes(t, a, 1, size)
	awaitProvider(t, b, root.String())
	if _, err := b.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	t.Run("on being read", func(t *testing.T) {
		rot(t, b, root, 3*b3.GroupSize)
		if _, _, got, err := fetchHTTP(t, b, root); err != nil || !bytes.Equal(p, got) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		testkit.Eventually(t, "its repair", func() bool {
			return metric(t, b, `repair_objects_total{kind="damage",outcome="ok"}`) > 0
		})
		if n := metric(t, b, "store_corrupt_objects"); n != 0 {
			t.Errorf("%d objects are marked", n)
		}
		if n := metric(t, b, `repair_bytes_total{kind="damage"}`); n != size {
			t.Errorf("%d bytes are counted", n)
		}
		if _, _, got, err := fetchHTTP(t, b, root); err != nil || !bytes.Equal(p, got) {
			t.Errorf("after the repair: %d bytes, %v", len(got), err)
		}
	})
	t.Run("on being asked for", func(t *testing.T) {
		good, _ := addBytes(t, b, 2, 1000)
		rot(t, b, root, 5*b3.GroupSize)
		var seen []api.Verified
		for v, err := range b.api.Verify(t.Context(), "", api.VerifyOptions{Repair: true}) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, v)
		}
		if len(seen) != 2 || bytes.Compare(seen[0].Root[:], seen[1].Root[:]) >= 0 {
			t.Fatalf("%+v", seen)
		}
		for _, v := range seen {
			if v.Error != nil || v.Repaired != (v.Root == root) || v.Root == good && v.Size != 1000 ||
				v.Root == root && v.Size != size {
				t.Errorf("%+v", v)
			}
		}
		if _, _, got, err := fetchHTTP(t, b, root); err != nil || !bytes.Equal(p, got) {
			t.Errorf("after the repair: %d bytes, %v", len(got), err)
		}
	})
	t.Run("nobody has it", func(t *testing.T) {
		alone, _ := addBytes(t, b, 3, size)
		rot(t, b, alone, 9)
		var failed *status.Report
		for v, err := range b.api.Verify(t.Context(), alone.String(), api.VerifyOptions{Repair: true}) {
			if err != nil {
				t.Fatal(err)
			}
			failed = v.Error
		}
		if failed == nil || failed.Reason != status.Corrupt.String() ||
			!strings.Contains(failed.Message, "could not be fetched again") {
			t.Errorf("%+v", failed)
		}
	})
}
