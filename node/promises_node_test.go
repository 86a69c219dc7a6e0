package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// stored reads an object of a node that does not run.
func stored(t *testing.T, home string, root b3.Root) []byte {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir = filepath.Join(home, "store")
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p, err := storetest.Get(t, s, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return p
}

// loseRecord overwrites the record of a small object with what is no record.
func loseRecord(t *testing.T, home string, body []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(home, "store", "seg", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(p, body)
		if at < 0 {
			continue
		}
		head := bytes.LastIndex(p[:at], []byte("ALR"))
		copy(p[head:at+len(body)], bytes.Repeat([]byte{0xff}, at+len(body)-head))
		if err := os.WriteFile(name, p, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no segment has the object")
}

// integrity says whether the gate store_integrity is open.
func integrity(t *testing.T, n *running) bool {
	t.Helper()
	for _, g := range ready(t, n).Gates {
		if g.Name == "store_integrity" {
			return g.Ready
		}
	}
	t.Fatal("there is no such gate")
	return false
}

func damageOf(t *testing.T, n *running) api.DamageReport {
	t.Helper()
	r, err := n.api.Damage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPromisesAreKept: a node whose store lost a directory and a file below a
// pin, with its index, says so, refuses writes, and fetches both from another
// node; then all is as it was.
func TestPromisesAreKept(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"top": storetest.Bytes(1, 5000), "sub/small": storetest.Bytes(2, 3000),
		"sub/large": storetest.Bytes(3, 5*b3.GroupSize)}
	for name, p := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	top := add(t, a, dir)[0].Root.String()
	awaitProvider(t, b, top)
	if _, err := b.api.Fetch(t.Context(), top, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.api.Pin(t.Context(), top, api.PinOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	sub, err := b.api.Stat(t.Context(), top+"/sub")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	large := b3.Sum(files["sub/large"]).Hex()
	loseRecord(t, b.home, stored(t, b.home, sub.Root))
	for _, name := range []string{filepath.Join("obj", large[:2], large), "index"} {
		if err := os.RemoveAll(filepath.Join(b.home, "store", name)); err != nil {
			t.Fatal(err)
		}
	}

	// Alone it can only say so.
	b = startAt(t, b.home, nil)
	if r := damageOf(t, b); r.Open == 0 || r.Unknown == 0 {
		t.Fatalf("the damage is %+v", r)
	} else {
		t.Logf("%+v", r)
	}
	if integrity(t, b) || metric(t, b, "store_recovery_unknown") == 0 {
		t.Error("the gate is open")
	}
	if _, err := b.api.Pin(t.Context(), top+"/top", api.PinOptions{Label: "x"}); status.Of(err) != status.NotReady {
		t.Errorf("a pin says %v", err)
	}
	if _, err := b.api.GC(t.Context(), api.GCOptions{All: true}, nil, nil); status.Of(err) != status.Conflict {
		t.Errorf("a collection says %v", err)
	}
	paths := map[string]api.Verified{}
	for v, err := range b.api.Verify(t.Context(), "", api.VerifyOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if v.Pin != nil {
			paths[v.Path] = v
		}
	}
	if v, ok := paths["tree/sub"]; !ok && paths["sub"].Error == nil || ok && v.Error == nil {
		t.Errorf("verify tells %+v", paths)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}

	// Another node has it.
	b = startAt(t, b.home, joining(a))
	testkit.Eventually(t, "what was lost", func() bool {
		// The file is fetched after the damage of the log has ended, which names the directory alone.
		return damageOf(t, b).Open == 0 && metric(t, b, "store_corrupt_objects") == 0
	})
	if !integrity(t, b) {
		t.Error("the gate is shut")
	}
	for name, p := range files {
		s, err := b.api.Cat(t.Context(), top+"/"+name, b3.Range{End: -1})
		if err != nil {
			t.Fatal(name, err)
		}
		var got bytes.Buffer
		_, err = got.ReadFrom(s.Body)
		s.Body.Close()
		if err != nil || !bytes.Equal(got.Bytes(), p) {
			t.Errorf("%s: %d bytes, %v", name, got.Len(), err)
		}
	}
	for v, err := range b.api.Verify(t.Context(), "", api.VerifyOptions{}) {
		if err != nil || v.Error != nil {
			t.Errorf("verify tells %+v, %v", v, err)
		}
	}
	for _, d := range damageOf(t, b).Damage {
		if d.State == "open" || d.State == "accepted" {
			t.Errorf("it is %+v", d)
		}
	}
	if metric(t, b, "store_recovery_repaired_total") == 0 {
		t.Error("no repair is counted")
	}
	addBytes(t, b, 9, 1000)
}
