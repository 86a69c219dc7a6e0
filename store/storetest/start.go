// Package storetest provides the test suite that every backend of package store must pass,
// and helpers that start a store or an S3 server for a test.
//
// The tests of a backend call [Suite] with a function that starts a store with that backend. Each
// test of the suite starts a new store and uses only its exported methods. The store stops when the
// test ends, because the function calls [Start] or [Try].
//
// Other tests call [Start], then [Put], [Get], [Holds] and [Want]. Tests of the S3 backend
// call [StartS3], which runs versitygw, or [FakeS3] for a server of their own. Tests of what a
// loss of power leaves call [CrashEverywhere].
package storetest

import (
	"context"
	"sync"
	"testing"

	"allium/store"
)

// Start runs a store until the test ends or stop is called. It returns when the store is ready,
// and ends the test if the store does not open. stop is idempotent and returns the error of
// Run.
func Start(t testing.TB, cfg store.Config, deps store.Deps) (s *store.Store, stop func() error) {
	t.Helper()
	s, stop, err := Try(t, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s, stop
}

// Try is Start for a store that may fail to open. It returns that error.
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
