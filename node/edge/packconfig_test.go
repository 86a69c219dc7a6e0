package edge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/node/config"
	"allium/protocols/status"
)

// TestConfigureAtOnce: however the steps of commands that mount and unmount one name fall, the configuration has in the
// end what the node serves, and a command that succeeds was not undone before it ended.
func TestConfigureAtOnce(t *testing.T) {
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
				done <- configure(r, func(r api.MountRequest) error {
					step(func() { file = r })
					return nil
				}, func() (now api.MountRequest, _ bool, _ error) {
					step(func() { now = node })
					return now, true, nil
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

// TestConfigurePackEnds: a node that stops has no say, and one that changes for ever ends in a conflict.
func TestConfigurePackEnds(t *testing.T) {
	t.Parallel()
	r := api.MountRequest{Name: "a", File: "x"}
	writes := 0
	write := func(api.MountRequest) error { writes++; return nil }
	err := configure(r, write, func() (api.MountRequest, bool, error) { return api.MountRequest{}, false, nil })
	if err != nil || writes != 1 {
		t.Errorf("%v after %d writes", err, writes)
	}
	writes = 0
	err = configure(r, write, func() (api.MountRequest, bool, error) {
		return api.MountRequest{Name: "a", File: fmt.Sprint(writes)}, true, nil
	})
	if status.Of(err) != status.Conflict || writes != configureTries {
		t.Errorf("%v after %d writes", err, writes)
	}
	gone := status.Errorf(status.TransportDown, "the node does not answer")
	err = configure(r, write, func() (api.MountRequest, bool, error) { return api.MountRequest{}, true, gone })
	if status.Of(err) != status.TransportDown {
		t.Error(err)
	}
}

// TestConfigurePack writes, replaces and takes out a pack of a file, as the node has it.
func TestConfigurePack(t *testing.T) {
	t.Parallel()
	o := config.Options{File: filepath.Join(t.TempDir(), "config.toml")}
	if err := os.WriteFile(o.File, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var served []api.Pack
	list := func(context.Context) ([]api.Pack, bool, error) { return served, true, nil }
	has := func(want string) {
		t.Helper()
		p, err := os.ReadFile(o.File)
		if err != nil || strings.Join(strings.Fields(string(p)), " ") != want {
			t.Errorf("%v: the file is %s", err, p)
		}
	}
	served = []api.Pack{{Name: "b", File: "b"}, {Name: "a", File: "x"}}
	removed, err := ConfigurePack(t.Context(), o, api.MountRequest{Name: "a", File: "x"}, list)
	if err != nil || removed {
		t.Errorf("%t, %v", removed, err)
	}
	has(`[edge.packs.a] file = "x"`)
	served[1] = api.Pack{Name: "a", Key: "maps.example.org"}
	_, err = ConfigurePack(t.Context(), o, api.MountRequest{Name: "a", File: "y"}, list)
	if status.Of(err) != status.Conflict || !strings.Contains(err.Error(), "maps.example.org") {
		t.Error(err)
	}
	has(`[edge.packs.a] key = "maps.example.org"`)
	none := api.MountRequest{Name: "a"}
	if removed, err = ConfigurePack(t.Context(), o, none, list); status.Of(err) != status.Conflict || !removed {
		t.Errorf("%t, %v", removed, err)
	}
	served = served[:1]
	if removed, err = ConfigurePack(t.Context(), o, none, list); err != nil || !removed {
		t.Errorf("%t, %v", removed, err)
	}
	has("")
}
