// Package storetest is the one suite that every backend of package store
// passes, and the way tests start a store. A new backend calls [Suite] with a
// function that starts it; each test in the suite starts a fresh one, uses it
// through its exported methods alone, and leaves it to be closed.
package storetest

import (
	"context"
	"sync"
	"testing"

	"allium/store"
)

// Start runs a store until the test ends, or until stop, which is idempotent
// and returns what Run returned.
func Start(t testing.TB, cfg store.Config, deps store.Deps) (s *store.Store, stop func() error) {
	t.Helper()
	s, stop, err := Try(t, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s, stop
}

// Try is Start for a store that may not open: then it returns the error.
func Try(t testing.TB, cfg store.Config, deps store.Deps) (*store.Store, func() error, error) {
	t.Helper()
	s, err := store.New(cfg, deps)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var ran error
	wg.Go(func() {
		defer close(ended)
		ran = s.Run(ctx, func() { close(ready) })
	})
	stop := func() error {
		cancel()
		wg.Wait()
		return ran
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case <-ready:
		return s, stop, nil
	case <-ended:
		return nil, nil, ran
	}
}
