package store

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// startStore runs a store until stop, which returns what Run returned.
func startStore(t testing.TB, cfg Config, fs vfs.FS) (s *Store, stop func() error) {
	t.Helper()
	s, err := New(cfg, Deps{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var ran error
	wg.Go(func() {
		defer close(ended)
		ran = s.Run(ctx, func() { close(ready) })
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatal(ran)
	}
	return s, sync.OnceValue(func() error {
		cancel()
		wg.Wait()
		return ran
	})
}
