package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// set gives a node faults.
func set(t *testing.T, n *running, f api.Faults) {
	t.Helper()
	if _, err := n.api.SetFaults(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// TestFaultsAreForTestnets: other profiles refuse them, and have nothing of them.
func TestFaultsAreForTestnets(t *testing.T) {
	noLeaks(t)
	n := start(t, func(c *config.Config) {
		*c = config.Default(p2p.Desktop)
		c.Listen.Listen, c.Listen.PortMap = []string{"/ip4/127.0.0.1/tcp/0"}, false
		c.Gateway.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	})
	for _, f := range []api.Faults{{}, {Corrupt: true}} {
		if _, err := n.api.SetFaults(t.Context(), f); status.Of(err) != status.Unsupported {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if f, err := n.api.Faults(t.Context()); err != nil || f.Corrupt {
		t.Errorf("%+v, %v", f, err)
	}
	if metric(t, n, "fault_active") != 0 || exposed(t, n, "fault_") {
		t.Error("a node that can have no faults shows them in its metrics")
	}
}

// exposed says whether a node's /metrics has a name that begins like that.
func exposed(t *testing.T, n *running, prefix string) bool {
	t.Helper()
	resp, err := http.Get(n.ID().Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "\n"+prefix)
}

// TestFaultsAreShown: what was set is told again, and by the metric.
func TestFaultsAreShown(t *testing.T) {
	noLeaks(t)
	n := start(t, nil)
	want := api.Faults{Corrupt: true, FullDisk: true}
	got, err := n.api.SetFaults(t.Context(), want)
	if err != nil || !got.Corrupt || !got.FullDisk {
		t.Fatalf("%+v, %v", got, err)
	}
	if metric(t, n, `fault_active{kind="corrupt"}`) != 1 || metric(t, n, "fault_active") != 2 {
		t.Error("not in the metric")
	}
	// What is refused changes nothing.
	if _, err := n.api.SetFaults(t.Context(), api.Faults{Rate: 1}); status.Of(err) != status.BadRequest {
		t.Error(err)
	}
	if f, err := n.api.Faults(t.Context()); err != nil || !f.Corrupt || !f.FullDisk {
		t.Errorf("%+v, %v", f, err)
	}
	set(t, n, api.Faults{})
	if metric(t, n, "fault_active") != 0 {
		t.Error("healed, and still in the metric")
	}
	// The admin listener has no authentication, and changes nothing.
	resp, err := http.Post(n.ID().Admin+"/api/v1/faults/set", "application/json", strings.NewReader(`{"corrupt":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s", resp.Status)
	}
	for _, path := range []string{"/api/v1/faults", "/api/v1/faults/set"} {
		resp, err := http.Get(n.ID().Gateway + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("the public listener has %s: %s", path, resp.Status)
		}
	}
}

// TestLiarIsFound: what a liar serves is corrupt to whoever asked, and an honest
// provider makes up for it.
func TestLiarIsFound(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	liar, honest, asker := start(t, joining(seed)), start(t, joining(seed)), start(t, joining(seed))
	root, want := addBytes(t, liar, 7, 300_000)
	set(t, liar, api.Faults{Corrupt: true})
	awaitProvider(t, asker, root.String())
	_, err := asker.api.Fetch(t.Context(), root.String(), nil)
	if status.Of(err) != status.Corrupt {
		t.Fatalf("from a liar alone: %v", err)
	}
	if _, got := addBytes(t, honest, 7, 300_000); !bytes.Equal(got, want) {
		t.Fatal("another object")
	}
	testkit.Eventually(t, "the honest provider is found", func() bool {
		_, err = asker.api.Fetch(t.Context(), root.String(), nil)
		return err == nil
	})
	// Its own user is not lied to.
	s, err := liar.api.Get(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	if got, err := io.ReadAll(s.Body); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the liar's own user: %v", err)
	}
}

// TestLiarHeals: a liar that was healed serves as ever.
func TestLiarHeals(t *testing.T) {
	noLeaks(t)
	liar := start(t, nil)
	asker := start(t, joining(liar))
	root, _ := addBytes(t, liar, 9, 200_000)
	set(t, liar, api.Faults{Corrupt: true})
	awaitProvider(t, asker, root.String())
	if _, err := asker.api.Fetch(t.Context(), root.String(), nil); status.Of(err) != status.Corrupt {
		t.Fatal(err)
	}
	set(t, liar, api.Faults{})
	testkit.Eventually(t, "an honest answer", func() bool {
		_, err := asker.api.Fetch(t.Context(), root.String(), nil)
		return err == nil
	})
}

// addErr adds a file and returns the error.
func addErr(t *testing.T, n *running, size int) error {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, bytes.Repeat([]byte(t.Name()), size/len(t.Name())), 0o644); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(files.WriteTar(w, files.DiskItems(name))) }()
	defer r.Close()
	return last(n.api.Add(t.Context(), r, api.AddOptions{}, nil))
}

func last[T any](seq iter.Seq2[T, error]) (err error) {
	for _, err = range seq {
	}
	return err
}

// TestFullDisk: writes are refused, reads go on, and it heals.
func TestFullDisk(t *testing.T) {
	noLeaks(t)
	n := start(t, nil)
	root, want := addBytes(t, n, 3, 100_000) // pinned
	set(t, n, api.Faults{FullDisk: true})
	if err := addErr(t, n, 50_000); status.Of(err) != status.NoSpace {
		t.Errorf("an add to a full disk: %v", err)
	}
	shut := func() bool {
		for _, g := range ready(t, n).Gates {
			if g.Name == "store_space" {
				return !g.Ready
			}
		}
		return false
	}
	testkit.Eventually(t, "the gate store_space shuts", shut)
	code, _, got, err := fetchHTTP(t, n, root)
	if code != http.StatusOK || err != nil || !bytes.Equal(got, want) {
		t.Errorf("a read beside a full disk: %d, %v", code, err)
	}
	set(t, n, api.Faults{})
	if err := addErr(t, n, 50_000); err != nil {
		t.Errorf("an add after that: %v", err)
	}
	testkit.Eventually(t, "the gate store_space opens", func() bool { return !shut() })
}

// ready reads /readyz.
func ready(t *testing.T, n *running) (r api.Readiness) {
	t.Helper()
	resp, err := http.Get(n.ID().Admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFullDiskOfRAM: a store in RAM has no disk.
func TestFullDiskOfRAM(t *testing.T) {
	noLeaks(t)
	n := start(t, func(c *config.Config) { c.Store.Backend = store.BackendMemory })
	if _, err := n.api.SetFaults(context.WithoutCancel(t.Context()),
		api.Faults{FullDisk: true}); status.Of(err) != status.Unsupported || !strings.Contains(err.Error(), "RAM") {
		t.Error(err)
	}
}

// TestClockSkew: what a node signs whose clock is wrong nobody takes, one way or
// the other; with the clock set right again all is well.
func TestClockSkew(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	skewed, other := start(t, joiningByRecords(seed)), start(t, joiningByRecords(seed))
	found := func(n *running, root b3.Root) bool {
		fresh := api.FindOptions{Query: api.Query{Limit: 1, Fresh: true}}
		for _, err := range n.api.FindProviders(t.Context(), root.String(), fresh) {
			if err == nil {
				return true
			}
		}
		return false
	}
	for i, skew := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		set(t, skewed, api.Faults{ClockSkewMS: skew.Milliseconds()})
		root, _ := addBytes(t, skewed, byte(20+i), 1000)
		if got, err := skewed.api.Announce(t.Context(), root.String()); err == nil {
			t.Errorf("%s: %d peers took the record", skew, got.Peers)
		}
		if _, ok := hint(t, other, root.String(), skewed.ID().ID); ok || found(other, root) {
			t.Errorf("%s: found", skew)
		}
		// Nor does it believe the others.
		right, _ := addBytes(t, other, byte(30+i), 1000)
		awaitProvider(t, seed, right.String())
		if found(skewed, right) {
			t.Errorf("%s: it took a record that is dated right", skew)
		}
		set(t, skewed, api.Faults{})
		if got, err := skewed.api.Announce(t.Context(), root.String()); err != nil || got.Peers == 0 {
			t.Errorf("%s, healed: %+v, %v", skew, got, err)
		}
		awaitProvider(t, other, root.String())
		testkit.Eventually(t, "a hint",
			func() bool { _, ok := hint(t, other, root.String(), skewed.ID().ID); return ok })
		if !found(skewed, right) {
			t.Errorf("%s, healed: it finds nobody", skew)
		}
	}
}
