package store_test

import (
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"allium/store"
	"allium/store/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(failingIndex) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

func TestMemory(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) *store.Store {
		cfg := store.DefaultConfig()
		cfg.Backend = store.BackendMemory
		s, _ := storetest.Start(t, cfg, store.Deps{})
		return s
	})
}

func TestEmbedded(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) *store.Store {
		s, _ := storetest.Start(t, embedded(t.TempDir()), store.Deps{})
		return s
	})
}

// TestEmbeddedInMemory is the embedded backend on a file system in RAM, with
// segments and batches so small that every limit is met.
func TestEmbeddedInMemory(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) *store.Store {
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
		return s
	})
}

// tiny is an embedded configuration where a few objects reach every limit.
func tiny() store.Config {
	cfg := embedded("/store")
	cfg.CommitBytes = 300 << 10
	cfg.SegmentBytes = 600 << 10
	cfg.ZeroAheadBytes = 64 << 10
	return cfg
}
