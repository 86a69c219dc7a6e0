package pack

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/policy"
	"allium/protocols/status"
)

// quietSet returns a set with a pack of dir that nobody looks at, and a function that replaces its file.
func quietSet(t *testing.T, dir string) (s *Set, put func(p []byte)) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir, cfg.Packs = dir, map[string]Mount{"city": {File: "city.pmtiles"}}
	s, err := New(cfg, Deps{Objects: &fakeObjects{}, Keys: &fakeKeys{}, Filter: policy.AllowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	return s, func(p []byte) {
		t.Helper()
		file := filepath.Join(dir, "city.pmtiles")
		if err := os.WriteFile(file+".new", p, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReloadWaits: a reload looks again at a pack that is being verified, as its file may have changed since that
// began. It ends early with its context.
func TestReloadWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, put := quietSet(t, dir)
		defer s.close()
		put(archiveOf(1, "one"))
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := s.List()[0].Version
		m, err := s.find("city")
		if err != nil || !m.begin(t.Context(), false) || m.begin(t.Context(), false) {
			t.Fatal("the pack cannot be verified by one alone", err)
		}
		put(archiveOf(1, "number two"))
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_ = s.Reload(canceled) // the pack is served
		var reload sync.WaitGroup
		reload.Go(func() { err = s.Reload(t.Context()) })
		synctest.Wait()
		if now := s.List()[0].Version; now != first {
			t.Errorf("two have verified it at once: %s after %s", now, first)
		}
		m.end()
		reload.Wait()
		if now := s.List()[0].Version; err != nil || now == first {
			t.Errorf("%v: %s is served after %s", err, now, first)
		}
	})
}

// TestReloadOfWhatIsFetched: a reload does not wait for a pack that peers send. Its name is asked for again then.
func TestReloadOfWhatIsFetched(t *testing.T) {
	t.Parallel()
	m := newMount("world", Mount{Key: "maps.zone"})
	if !m.begin(t.Context(), false) || m.due(time.Now(), true) {
		t.Fatal("the reload waits")
	}
	m.failed(status.Errorf(status.NotFound, "nobody has it"), fileFacts{})
	m.end()
	if !m.due(time.Now(), false) {
		t.Error("the pack is not looked at again")
	}
}

// TestMendedFile: a bad file is tried again at the next look when it was replaced, and not when it was not.
func TestMendedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, put := quietSet(t, dir)
		put([]byte("this is no pack, but longer than a magic number"))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx, func() {}) })
		defer running.Wait()
		defer cancel()
		time.Sleep(2 * maxRetry) // the pauses are long now
		m, err := s.find("city")
		if err != nil {
			t.Fatal(err)
		}
		tried := func() time.Time {
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.failing.retryAt
		}
		for before := tried(); ; time.Sleep(lookEvery) {
			if tried() != before { // a pause has just begun
				break
			}
		}
		before := tried()
		time.Sleep(2 * lookEvery)
		if now := tried(); now != before {
			t.Error("a file that is as it was is tried again before its time")
		}
		put(archiveOf(1, "good"))
		time.Sleep(lookEvery)
		synctest.Wait()
		if have, _, why := s.Shut(); have != 1 {
			t.Errorf("the mended file is not served: %s", why)
		}
	})
}

// TestFileFacts: a log that comes or goes beside a file, and another file of its size and date, are changes.
func TestFileFacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := opener{dir: dir}
	at := time.Now().Add(-time.Hour)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path+".new", at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	last := o.factsOf(Mount{File: "a"})
	if last != (fileFacts{}) || o.factsOf(Mount{Key: "b3:"}) != last {
		t.Error("there are facts of no file")
	}
	for _, step := range []func(){
		func() { write("a", "one") }, func() { write("a", "two") }, func() { write("a-wal", "") },
		func() { _ = os.Remove(filepath.Join(dir, "a-wal")) },
		func() { _ = os.Chtimes(filepath.Join(dir, "a"), at, at.Add(time.Second)) },
		func() { _ = os.Truncate(filepath.Join(dir, "a"), 1) },
	} {
		step()
		now := o.factsOf(Mount{File: "a"})
		if now.equal(last) || !now.equal(o.factsOf(Mount{File: "a"})) {
			t.Errorf("%v after %v", now, last)
		}
		last = now
	}
}

// TestReconfigure: packs come and go with the configuration. One of another file is replaced once that is verified, and
// one that a command has mounted stays.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, put := quietSet(t, dir)
	defer s.close()
	put(archiveOf(1, "one"))
	for name, p := range map[string][]byte{"other.pmtiles": archiveOf(1, "other"), "bad.pmtiles": []byte("no pack")} {
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mount(t.Context(), "mine", Mount{File: "other.pmtiles"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what  string
		packs map[string]Mount
		fails bool
		want  map[string]string
	}{
		{"another comes", map[string]Mount{"city": {File: "city.pmtiles"}, "new": {File: "other.pmtiles"}}, false,
			map[string]string{"city": "city.pmtiles", "new": "other.pmtiles", "mine": "other.pmtiles"}},
		{"one goes", map[string]Mount{"new": {File: "other.pmtiles"}}, false,
			map[string]string{"new": "other.pmtiles", "mine": "other.pmtiles"}},
		{"another file, which is bad", map[string]Mount{"new": {File: "bad.pmtiles"}}, true,
			map[string]string{"new": "other.pmtiles", "mine": "other.pmtiles"}},
		{"another file", map[string]Mount{"new": {File: "city.pmtiles"}}, false,
			map[string]string{"new": "city.pmtiles", "mine": "other.pmtiles"}},
		{"none", nil, false, map[string]string{"mine": "other.pmtiles"}},
	} {
		cfg := *s.live.Load()
		cfg.Packs, cfg.CORS = step.packs, []string{"https://app.example"}
		s.Reconfigure(cfg)
		if err := s.Reload(t.Context()); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.what, err)
		}
		got := map[string]string{}
		for _, m := range s.List() {
			if got[m.Name] = m.Of.File; m.Info == nil {
				t.Errorf("%s: %s is not served", step.what, m.Name)
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("%s: %v", step.what, got)
		}
	}
}
