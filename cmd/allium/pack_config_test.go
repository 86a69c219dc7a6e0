package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/status"
)

// TestConfigureServed: however the steps of commands that mount and unmount one name fall, the configuration has in the
// end what the node serves, and a command that succeeds was not undone before it ended.
func TestConfigureServed(t *testing.T) {
	t.Parallel()
	const commands = 3
	for seed := range uint64(300) {
		var mu sync.Mutex
		var node, file api.MountRequest
		node.Name, file.Name = "a", "a"
		steps := make(chan struct{})
		step := func(do func()) { // in an order that the test chooses
			<-steps
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		var running sync.WaitGroup
		done := make(chan error)
		for i := range commands {
			r := api.MountRequest{Name: "a"}
			if i > 0 {
				r.File = fmt.Sprint(i)
			}
			running.Go(func() {
				step(func() { node = r })
				done <- configureServed(t.Context(), r, func(_ context.Context, r api.MountRequest) (bool, error) {
					step(func() { file = r })
					return true, nil
				}, func(context.Context) (now api.MountRequest, err error) {
					step(func() { now = node })
					return now, nil
				})
			})
		}
		src := rand.New(rand.NewPCG(seed, 1))
		succeeded := 0
		for left := commands; left > 0; {
			for range src.IntN(4) {
				select {
				case steps <- struct{}{}:
					continue
				case err := <-done:
					left--
					if err == nil {
						succeeded++
					} else if status.Of(err) != status.Conflict {
						t.Errorf("seed %d: %v", seed, err)
					}
				}
				break
			}
		}
		running.Wait()
		if node != file {
			t.Fatalf("seed %d: the node serves %+v, and the configuration has %+v", seed, node, file)
		}
		if succeeded == 0 {
			t.Errorf("seed %d: every command failed", seed)
		}
	}
}

// TestConfigureServedEnds: a node that stops is believed no more, and one that changes for ever ends in a conflict.
func TestConfigureServedEnds(t *testing.T) {
	t.Parallel()
	r := api.MountRequest{Name: "a", File: "x"}
	writes := 0
	write := func(context.Context, api.MountRequest) (bool, error) { writes++; return true, nil }
	err := configureServed(t.Context(), r, write, func(context.Context) (api.MountRequest, error) {
		return api.MountRequest{}, client.ErrNotRunning
	})
	if err != nil || writes != 1 {
		t.Errorf("%v after %d writes", err, writes)
	}
	writes = 0
	err = configureServed(t.Context(), r, write, func(context.Context) (api.MountRequest, error) {
		return api.MountRequest{Name: "a", File: fmt.Sprint(writes)}, nil
	})
	if status.Of(err) != status.Conflict || writes != configureTries {
		t.Errorf("%v after %d writes", err, writes)
	}
	gone := status.Errorf(status.TransportDown, "the node does not answer")
	err = configureServed(t.Context(), r, write, func(context.Context) (api.MountRequest, error) {
		return api.MountRequest{}, gone
	})
	if status.Of(err) != status.TransportDown {
		t.Error(err)
	}
}
