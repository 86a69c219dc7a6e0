package suggest_test

import (
	"testing"

	"allium/internal/suggest"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"add", "cat", "providers", "get", "gc", "store.index_cache", "dht.alpha"}
	for word, want := range map[string]string{
		"":            "",
		"x":           "",
		"xyz":         "",
		"ad":          "add",
		"ADD":         "add",
		"gett":        "get",
		"provdrs":     "providers",
		"prov":        "providers", // the beginning of a word
		"p":           "",
		"dht.alpa":    "dht.alpha",
		"dht.aplhaaa": "",
		"ca":          "cat", // one letter from both cat and gc: the first
	} {
		if got := suggest.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
