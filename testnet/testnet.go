// Package testnet runs a local network: N nodes of the testnet profile over loopback, in
// one process or in one process each. Their homes are in one temporary directory and
// their ports are free ones. The package can break the network on purpose, and it plays
// scenarios: files that say which faults happen and what must be true afterwards.
//
// [Up] starts the nodes one after the other and returns when all are ready. The first
// node is the seed of the others. A [Member] is used through its local API, in this
// process or in another. [Net.Down] drains all nodes and removes the homes.
//
// [Net.Demo] is the tour that `make testnet` runs: one node adds a real directory,
// another finds it through the DHT, fetches it and compares it byte by byte, and a page
// is read through the gateway.
//
// One fault: [Net.Do] receives the step "loss 5% [1,2]" (package script). It adds the
// fault to the network's condition and computes the faults of each node. Nodes whose
// faults have changed are told through their local API (client.SetFaults). If a node
// refuses, all nodes get their former faults back. A restarted node is told again.
//
// [Play] plays a scenario file on a new network. A [Player] plays single steps, for the control socket ([Control]) and
// with a [Recorder].
//
// Invariants:
//
//   - One verb changes the network at a time.
//   - Every wait is bounded: that of a step by its own time, that of a file by its
//     deadline.
//   - All nodes have ended when Down returns.
package testnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/policy/capabilities"
	"allium/node"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Options describe a network.
type Options struct {
	N       int          // nodes, 1 to 200
	Binary  string       // the program of one process for each node; empty for all nodes in this process
	Other   string       // the program of the nodes with even numbers, each in a process; empty for none
	Seed    uint64       // of identities and generated content; 0 for new identities each time
	Cluster bool         // the nodes have a common key, so that they keep copies for each other
	Log     *slog.Logger // of nodes in this process; nil discards

	Started func(*Member) // is called with each node when it is ready, in order; may be nil

	process *node.Process // shared by the nodes in this process
	ring    []byte        // the common key of a cluster, as a file
}

// program returns the program of a node, or "" for a node in this process.
func (o Options) program(number int) string {
	if o.Other != "" && number%2 == 0 {
		return o.Other
	}
	return o.Binary
}

// MaxNodes bounds a network. A node takes about 30 MiB of memory.
const MaxNodes = script.MaxNodes

// Net is a running network.
type Net struct {
	Members []*Member

	dir  string
	o    Options
	lock *os.File      // locked while the network lives
	http *http.Client  // for readiness and metrics
	verb chan struct{} // holds a token while a verb changes the network

	// Owned by the holder of the token.
	current condition // the faults that the network should have

	mu     sync.Mutex   // guards pushed; only the holder of the token writes it; lock: leaf
	pushed []api.Faults // the faults that each member was sent since it started
}

// Bounds for one node.
const (
	readyWithin = time.Minute     // to start, on a busy machine
	askWithin   = 5 * time.Second // to answer one question about its state
)

// Up starts a network. When it fails it leaves nothing behind.
func Up(ctx context.Context, o Options) (_ *Net, err error) {
	if o.N < 1 || o.N > MaxNodes {
		return nil, status.Errorf(status.BadRequest, "a testnet of %d nodes: must be 1 to %d", o.N, MaxNodes)
	}
	o.process = node.NewProcess(runtime.GOMAXPROCS(0))
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	n := &Net{
		dir: dir, o: o, verb: make(chan struct{}, 1),
		http:    &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: askWithin},
		current: condition{n: o.N}, pushed: make([]api.Faults, o.N),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Down(context.WithoutCancel(ctx)))
		}
	}()
	if n.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	if o.Cluster {
		if n.o.ring, err = newRing(ctx, dir); err != nil {
			return nil, err
		}
	}
	for i := range o.N {
		m, err := n.member(i + 1)
		if err != nil {
			return nil, fmt.Errorf("testnet: node %d: %w", i+1, err)
		}
		if err := m.start(ctx, n.o, n.seedsFor(i+1)); err != nil {
			return nil, fmt.Errorf("testnet: %s: %w", m.Name, err)
		}
		if o.Started != nil {
			o.Started(m)
		}
		n.Members = append(n.Members, m)
	}
	return n, nil
}

// member makes a node's home. With a seed it also writes the node's identity.
func (n *Net) member(number int) (*Member, error) {
	m := &Member{Name: fmt.Sprintf("node %d", number), Number: number, Home: filepath.Join(n.dir, fmt.Sprint(number))}
	socket, err := api.SocketPath(m.Home)
	if err != nil {
		return nil, err
	}
	if m.API, err = client.New(socket); err != nil {
		return nil, err
	}
	if n.o.ring != nil {
		if err := giveRing(m.Home, n.o.ring); err != nil {
			return nil, err
		}
	}
	if n.o.Seed == 0 {
		return m, nil
	}
	return m, giveIdentity(m.Home, n.o.Seed, number)
}

// newRing makes the common key of a cluster in the directory of the network, and returns its file.
func newRing(ctx context.Context, dir string) ([]byte, error) {
	if _, err := capabilities.Open(dir).Rotate(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, capabilities.RingFile))
}

func giveRing(home string, ring []byte) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, capabilities.RingFile), ring, 0o600)
}

// seedsFor returns the addresses of a node's seeds: those of the first node, or of up to
// two others when the node is the first or the first does not run.
func (n *Net) seedsFor(number int) []string {
	var addrs []string
	members := 0
	for _, m := range n.Members {
		if m.Number == number || !m.Running() {
			continue
		}
		addrs = append(addrs, m.ID().Addrs...)
		if members++; m.Number == 1 || members == 2 {
			break
		}
	}
	return addrs
}

// Dir returns the directory of the network, which contains the homes.
func (n *Net) Dir() string { return n.dir }

// Down drains all running nodes at the same time, waits for their end and removes the
// homes.
func (n *Net) Down(ctx context.Context) error {
	errs := make([]error, len(n.Members), len(n.Members)+2)
	var wg sync.WaitGroup
	for i, m := range n.Members {
		wg.Go(func() {
			if err := m.stop(ctx); err != nil {
				errs[i] = fmt.Errorf("testnet: %s: %w", m.Name, err)
			}
		})
	}
	wg.Wait()
	n.http.CloseIdleConnections()
	errs = append(errs, os.RemoveAll(n.dir))
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
