package store_test

import (
	"bytes"
	"testing"

	"allium/store"
	"allium/store/storetest"
)

// TestHoldMakesRoom: what came before a hold gives way to what comes under it,
// however soon.
func TestHoldMakesRoom(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Backend = store.BackendMemory
	cfg.MemoryBytes = 8 << 20
	s, _ := storetest.Start(t, cfg, store.Deps{})
	for i := range 12 {
		release := s.HoldGC()
		p := storetest.Bytes(uint64(i), 5<<19)
		if _, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{Deferred: true}); err != nil {
			t.Fatalf("put %d of 2.5 MiB into 8 MiB: %v", i, err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		release()
	}
}
