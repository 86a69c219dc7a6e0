package store_test

import (
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// TestEvictionInRAM: objects far smaller than the blocks that they take in RAM
// are evicted for others, and no put is refused.
func TestEvictionInRAM(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1025, 3000} {
		synctest.Test(t, func(t *testing.T) {
			cfg := store.DefaultConfig()
			cfg.Backend, cfg.MemoryBytes = store.BackendMemory, 64*b3.GroupSize
			s, _ := storetest.Start(t, cfg, store.Deps{})
			var writers errgroup.Group
			writers.SetLimit(16)
			for i := range 8000 {
				p := storetest.Bytes(uint64(i), size)
				writers.Go(func() error {
					_, err := s.PutBytes(t.Context(), p, store.PutOptions{})
					return err
				})
			}
			if err := writers.Wait(); err != nil {
				t.Errorf("objects of %d bytes: %v; %+v", size, err, s.Collector().Space())
			}
			if n := s.Stats().Objects; n == 8000 || n < 100 {
				t.Errorf("%d objects of %d bytes are here", n, size)
			}
		})
	}
}
