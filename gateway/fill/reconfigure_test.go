package fill

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestReconfigure: sources come, go and change, one that has not changed keeps what is known of its origin, and one
// whose authorities cannot be read leaves the one before, or none.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(url string) Source {
		src := DefaultSource()
		src.URL = url
		return src
	}
	cfg := DefaultConfig()
	cfg.Sources = map[string]Source{"a": at("https://a.example"), "b": at("https://b.example")}
	s, err := New(cfg, Deps{Store: noStore{t}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.live.Load().close()
	before := maps.Clone(s.live.Load().sources)
	broken := at("https://a.example")
	broken.CAFile = bad
	cfg.MaxStale = time.Minute
	cfg.Sources = map[string]Source{
		"a": broken, "b": at("https://b.example"), "c": at("https://c.example"), "d": broken,
	}
	s.Reconfigure(cfg)
	now := s.live.Load()
	if names := slices.Sorted(maps.Keys(now.sources)); !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("sources %v", names)
	}
	if now.sources["a"] != before["a"] || now.sources["b"] != before["b"] || now.MaxStale != time.Minute {
		t.Error("a source was made anew, or the configuration is another")
	}
	if err := s.Reload(t.Context()); err == nil {
		t.Error("a file without a certificate is no error")
	}
	cfg.FillBytes *= 2
	cfg.Sources = map[string]Source{"b": at("https://b.example")}
	s.Reconfigure(cfg)
	if now := s.live.Load(); len(now.sources) != 1 || now.sources["b"] == before["b"] {
		t.Error("the client has the old bound of a body")
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Error(err)
	}
}
