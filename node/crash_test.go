package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/tasks"
	"allium/internal/testkit"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// crasher lets the services of a node fail, and tells when they begin.
type crasher struct {
	begins func(name string) // may be nil

	mu    sync.Mutex
	order []string                      // of the services that have begun
	end   map[string]context.CancelFunc // ends the run under way
	ready map[string]int                // how often a service became ready
	stops []string                      // the services that fail when they are told to stop
	errs  bool                          // a run that was ended alone returns an error
}

// wrap is for Node.WrapServices. A run that was ended alone panics once it has returned; see failWithErrors.
func (c *crasher) wrap(name string, run supervise.Run) supervise.Run {
	return func(ctx context.Context, ready func()) error {
		own, end := context.WithCancel(ctx)
		defer end()
		c.mu.Lock()
		if !slices.Contains(c.order, name) {
			c.order = append(c.order, name)
		}
		c.end[name] = end
		c.mu.Unlock()
		if c.begins != nil {
			c.begins(name)
		}
		err := run(own, func() {
			c.mu.Lock()
			c.ready[name]++
			c.mu.Unlock()
			ready()
		})
		switch {
		case own.Err() != nil && ctx.Err() == nil && c.fails():
			return errors.New("crashed")
		case own.Err() != nil && ctx.Err() == nil, ctx.Err() != nil && c.inDrain(name):
			panic("crashed")
		}
		return err
	}
}

// failWithErrors makes runs that are ended alone return an error, not panic.
func (c *crasher) failWithErrors() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = true
}

func (c *crasher) fails() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errs
}

// inDrain reports whether the service is one that fails when it is told to stop.
func (c *crasher) inDrain(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.stops, name)
}

// crashInDrain lets services fail when they are told to stop.
func (c *crasher) crashInDrain(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops = names
}

// crash lets a service fail.
func (c *crasher) crash(name string) {
	c.mu.Lock()
	end := c.end[name]
	c.mu.Unlock()
	end()
}

// await waits until a service has been ready n times, or until the node has stopped.
func (c *crasher) await(t *testing.T, name string, n int, stopped <-chan struct{}) {
	t.Helper()
	testkit.Eventually(t, name+" is ready again", func() bool {
		select {
		case <-stopped:
			return true
		default:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ready[name] >= n
	})
}

// crashing is a node whose services can fail.
type crashing struct {
	*node.Node
	*crasher
	cancel  context.CancelFunc
	stopped chan struct{} // closed when Run has returned
	err     error         // of Run
}

// startCrashing runs a node. begins may be nil; it gets the end of Run's context. The caller waits for stopped.
func startCrashing(t *testing.T, home string, begins func(name string, cancel func())) *crashing {
	t.Helper()
	cfg := config.Default(p2p.Testnet)
	cfg.Node.DrainDeadline = 5 * time.Second // six failures take 4 s, and longer when the machine is busy
	n, err := node.New(home, cfg, node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &crashing{
		Node: n, cancel: cancel, stopped: make(chan struct{}),
		crasher: &crasher{end: map[string]context.CancelFunc{}, ready: map[string]int{}},
	}
	if begins != nil {
		c.begins = func(name string) { begins(name, cancel) }
	}
	n.WrapServices(c.wrap)
	ready := make(chan struct{})
	go func() {
		defer close(c.stopped)
		c.err = n.Run(ctx, func() { close(ready) })
	}()
	t.Cleanup(func() { cancel(); <-c.stopped })
	select {
	case <-ready:
	case <-c.stopped:
	}
	return c
}

// put stores bytes in a node, and returns when that is acknowledged.
func (c *crashing) put(t *testing.T, p []byte) b3.Root {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	var buf bytes.Buffer
	if err := errors.Join(os.WriteFile(name, p, 0o600), files.WriteTar(&buf, files.DiskItems(name))); err != nil {
		t.Fatal(err)
	}
	var root b3.Root
	for a, err := range c.API().Add(t.Context(), &buf, api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		root = a.Root
	}
	return root
}

// has fails unless the node has the bytes.
func (c *crashing) has(t *testing.T, root b3.Root, want []byte) {
	t.Helper()
	s, err := c.API().Get(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	if got, err := io.ReadAll(s.Body); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// services returns the services of a node, split by whether their failure ends the node.
func (c *crashing) services() (restarted, fatal []string) {
	for _, i := range c.Tasks() {
		switch {
		case i.Kind != tasks.Service || !i.Started:
		case i.Fatal:
			fatal = append(fatal, i.Name)
		default:
			restarted = append(restarted, i.Name)
		}
	}
	return restarted, fatal
}

// TestEachServiceCrashes: each service that may fail is run again, and the node works as before.
func TestEachServiceCrashes(t *testing.T) {
	noLeaks(t)
	c := startCrashing(t, t.TempDir(), nil)
	want := bytes.Repeat([]byte("kept"), 50_000)
	root := c.put(t, want)
	restarted, _ := c.services()
	if len(restarted) < 15 {
		t.Errorf("only %v may fail", restarted)
	}
	for _, name := range restarted {
		c.crash(name)
		c.await(t, name, 2, c.stopped)
	}
	c.has(t, root, want)
	root = c.put(t, want[:1000])
	c.has(t, root, want[:1000])
	c.cancel()
	if <-c.stopped; c.err != nil {
		t.Errorf("it stopped with %v", c.err)
	}
}

// TestFatalServiceCrashes: the failure of a service that others use ends the node as internal, which is exit code 70,
// and what was acknowledged is there at the next start.
func TestFatalServiceCrashes(t *testing.T) {
	noLeaks(t)
	home, want := t.TempDir(), bytes.Repeat([]byte("kept"), 50_000)
	c := startCrashing(t, home, nil)
	_, fatal := c.services()
	root := c.put(t, want)
	for _, name := range fatal {
		c.crash(name)
		if <-c.stopped; status.Of(c.err) != status.Internal || !strings.Contains(c.err.Error(), name+" failed") {
			t.Errorf("%s: %v", name, c.err)
		}
		c = startCrashing(t, home, nil)
		c.has(t, root, want)
	}
	noTemporary(t, home)
}

// restartedServices returns the names of the services that a node restarts when they fail.
func restartedServices(t *testing.T) []string {
	t.Helper()
	probe := startCrashing(t, t.TempDir(), nil)
	names, _ := probe.services()
	probe.cancel()
	<-probe.stopped
	return names
}

// crashSixTimes crashes a service each time that it runs.
func (c *crashing) crashSixTimes(t *testing.T, name string) {
	t.Helper()
	for i := range 6 {
		c.await(t, name, i+1, c.stopped)
		c.crash(name)
	}
}

// TestSixCrashes: the sixth failure of a service within a minute ends the node as internal.
func TestSixCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("each service waits for its restarts")
	}
	t.Parallel()
	for _, name := range restartedServices(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCrashing(t, t.TempDir(), nil)
			c.crashSixTimes(t, name)
			if <-c.stopped; status.Of(c.err) != status.Internal || !strings.Contains(c.err.Error(), name+" failed") {
				t.Errorf("%v", c.err)
			}
		})
	}
}

// TestCrashesInDrain: a node that drains ends well although its services fail meanwhile, while something is being
// added. They fail with an error: a panic that meets the end of the drain is a fault, see TestPanicInOwnDrain.
func TestCrashesInDrain(t *testing.T) {
	noLeaks(t)
	home, want := t.TempDir(), bytes.Repeat([]byte("kept"), 50_000)
	c := startCrashing(t, home, nil)
	root := c.put(t, want)
	restarted, _ := c.services()
	c.failWithErrors()
	body, feed := io.Pipe()
	var adding sync.WaitGroup
	adding.Go(func() {
		for range c.API().Add(context.WithoutCancel(t.Context()), body, api.AddOptions{}, nil) {
		}
	})
	if _, err := feed.Write([]byte("in hand")); err != nil {
		t.Fatal(err)
	}
	c.Drain()
	for _, name := range slices.Backward(restarted) {
		c.crash(name)
	}
	_ = feed.Close()
	adding.Wait()
	if <-c.stopped; c.err != nil {
		t.Errorf("it stopped with %v", c.err)
	}
	next := startCrashing(t, home, nil)
	next.has(t, root, want)
	noTemporary(t, home)
}

// TestPanicInOwnDrain: a service that panics while it drains keeps no other one from its drain. The node stops in time
// as internal, which is exit code 70, names the service, and what was acknowledged is there at the next start.
func TestPanicInOwnDrain(t *testing.T) {
	noLeaks(t)
	home, want := t.TempDir(), bytes.Repeat([]byte("kept"), 50_000)
	c := startCrashing(t, home, nil)
	root := c.put(t, want)
	restarted, fatal := c.services()
	all := slices.Concat(restarted, fatal)
	each := [][]string{all}
	if !testing.Short() {
		for _, name := range all {
			each = append(each, []string{name})
		}
	}
	for _, names := range each {
		c.crashInDrain(names...)
		c.Drain()
		if <-c.stopped; status.Of(c.err) != status.Internal || strings.Contains(c.err.Error(), "did not stop within") {
			t.Errorf("%s: %v", names, c.err)
		} else if len(names) == 1 && !strings.Contains(c.err.Error(), names[0]+" failed while it stopped") {
			t.Errorf("%s: %v", names, c.err)
		}
		noTemporary(t, home)
		c = startCrashing(t, home, nil)
		c.has(t, root, want)
	}
}

// TestSixCrashesInDrain: a service fails again and again while the node waits for a request in hand. With the sixth
// failure the node ends as internal; one whose deadline comes first ends well.
func TestSixCrashesInDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("each service waits for its restarts")
	}
	t.Parallel()
	for _, name := range restartedServices(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			token := mint(t, home, time.Now().Add(time.Hour), "op in put")
			c := startCrashing(t, home, nil)
			end := c.upload(t, token)
			defer end()
			c.Drain()
			c.crashSixTimes(t, name)
			testkit.Eventually(t, "the service has failed for good, or was told to stop", func() bool {
				select {
				case <-c.stopped:
					return true
				default:
					return c.Failure() != nil
				}
			})
			end()
			switch <-c.stopped; {
			case c.Failure() == nil && c.err == nil: // the deadline came first, or the request ended with the gateway
			case c.Failure() != nil && status.Of(c.err) == status.Internal && strings.Contains(c.err.Error(), name+" failed"):
			default:
				t.Errorf("%v, and %v", c.err, c.Failure())
			}
		})
	}
}

// upload begins an upload to the gateway, of which megabytes have arrived. The caller calls end.
func (c *crashing) upload(t *testing.T, token string) (end func()) {
	t.Helper()
	body, feed := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.ID().Gateway+"/o", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	var wg sync.WaitGroup
	wg.Go(func() {
		if resp, err := transport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
		_ = body.Close() // nobody reads it any more
	})
	if _, err := feed.Write(make([]byte, 16<<20)); err != nil {
		t.Error(err)
	}
	return func() { _ = feed.Close(); cancel(); wg.Wait() }
}

// TestStopInEveryStage: a node that is told to stop while a stage of its start begins ends in order as canceled, leaves
// no temporary file, and starts again.
func TestStopInEveryStage(t *testing.T) {
	noLeaks(t)
	home, want := t.TempDir(), bytes.Repeat([]byte("kept"), 50_000)
	c := startCrashing(t, home, nil)
	root := c.put(t, want)
	c.cancel()
	<-c.stopped
	for _, stage := range c.order {
		n := startCrashing(t, home, func(name string, cancel func()) {
			if name == stage {
				cancel()
			}
		})
		if <-n.stopped; n.err != nil && status.Of(n.err) != status.Canceled {
			t.Errorf("%s: it stopped with %v", stage, n.err)
		}
		if !slices.Contains(n.order, stage) { // a service that is ready at once lets the next one begin
			t.Errorf("%s: it did not get there", stage)
		}
		noTemporary(t, home)
	}
	last := startCrashing(t, home, nil)
	last.has(t, root, want)
}

// TestStopInReload: a node that is told to stop in the middle of a reload ends in order.
func TestStopInReload(t *testing.T) {
	noLeaks(t)
	n, err := node.New(t.TempDir(), config.Default(p2p.Testnet), node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	n.AddReloadTask("stops", func(ctx context.Context) error {
		n.Drain()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	var reloading sync.WaitGroup
	err = n.Run(t.Context(), func() {
		reloading.Go(func() {
			done, err := n.Reload(t.Context(), api.ReloadRequest{})
			if err != nil || done.Failed() == nil {
				t.Errorf("%+v, %v", done, err)
			}
		})
	})
	reloading.Wait()
	if err != nil {
		t.Errorf("it stopped with %v", err)
	}
}

// noTemporary fails for each file in a home that should be gone once no node runs.
func noTemporary(t *testing.T, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".new") ||
			strings.HasPrefix(name, ".") && path != home {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
