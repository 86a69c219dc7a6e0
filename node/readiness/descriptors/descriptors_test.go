package descriptors

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"allium/node/config"
	"allium/protocols/status"
	"allium/store"
)

// TestShare: the caches of open files give way to connections; a limit
// that the configuration may exceed is named with the key that asks for most,
// and one that no node can work with is refused.
func TestShare(t *testing.T) {
	cfg := config.Default("desktop")
	cfg.Listen.MaxConns, cfg.Gateway.Conns, cfg.Admin.Conns = 100, 1000, 10
	cfg.Store.Puts, cfg.Store.Ingests = 10, 20
	const need = processFiles + 100 + 1000 + 20 + 20 + 40
	for _, test := range []struct {
		name   string
		limit  int64
		files  int
		refuse bool
		says   string
	}{
		{"unknown", 0, 0, false, ""},
		{"plenty", 1 << 20, 0, false, ""},
		{"just enough", need + int64(store.MaxOpenFiles), 0, false, ""},
		{"smaller caches", need + 300, 300, false, "smaller than usual"},
		{"too little", need, store.MinOpenFiles, false, "lower gateway.conns"},
		{"far too little", 300, store.MinOpenFiles, false, "lower gateway.conns"},
		{"none", Least - 1, 0, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			files, err := Share(test.limit, cfg, slog.New(slog.NewTextHandler(&out, nil)))
			if test.refuse != (status.Of(err) == status.NotReady) || files != test.files {
				t.Errorf("%d files, error %v", files, err)
			}
			if said := out.String(); test.says == "" && said != "" || !strings.Contains(said, test.says) {
				t.Errorf("said %q, want %q", said, test.says)
			}
		})
	}
}
