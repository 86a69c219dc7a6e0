// Package testnet runs a local network: N nodes of the testnet profile over
// loopback, in one process or in one each, with homes in one temporary
// directory and no fixed ports. It breaks the network on demand, and plays
// scenarios that say how it is to be broken and what must come true.
//
// [Up] starts the nodes one after the other, the first as everybody's seed, and
// returns when each of them is ready. A [Member] is used through its local API,
// whether it lives in this process or another. [Net.Down] drains all of them
// and removes the homes.
//
// [Demo] is the tour that `make testnet` runs: a real directory is added on one
// node, found through the DHT by another, fetched, compared byte by byte, and
// read through the gateway.
//
// A fault, walked through: [Net.Do] is given the step "loss 5% [1,2]"
// (package script). It changes the [condition] that the network is wanted in,
// works out what each node has to do wrong for that, and tells those for whom
// it is something else than before, over their local API (client.SetFaults). A
// node that refuses has all of them set back. A node that is started again is
// told anew.
//
// [Play] plays a scenario file on a network of its own; a [Player] plays single
// steps, for the control socket ([Control]) and with a [Recorder] behind it.
//
// # Invariants
//
// One verb runs at a time. Nothing waits without a bound: a step waits for what
// it wants until its own, a file until its deadline. What was started has ended
// when Down returns.
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
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Options describe a network.
type Options struct {
	N      int          // nodes, 1 to 200
	Binary string       // runs one process of this program for each node; empty: all in this process
	Seed   uint64       // of the identities and of generated content; 0: identities are new each time
	Log    *slog.Logger // of nodes in this process; nil discards

	Started func(*Member) // is told each node when it is ready, in order; nil: nobody asks

	hash *b3.HashQueue // of the nodes in this process
}

// MaxNodes bounds a network: every node costs some 30 MiB.
const MaxNodes = script.MaxNodes

// Net is a running network.
type Net struct {
	Members []*Member

	dir  string
	o    Options
	lock *os.File      // held as long as the network lives
	http *http.Client  // of readiness and metrics
	verb chan struct{} // holds a token while a verb changes the network

	// Of whoever holds the token.
	want condition // what the network is to suffer

	mu     sync.Mutex   // guards pushed, for who only reads it; the token's holder alone writes
	pushed []api.Faults // what each member was told last, since it started
}

// Bounds of what is done to one node.
const (
	readyWithin = time.Minute     // a start, on a machine with other work
	askWithin   = 5 * time.Second // one question about its state
)

// Up starts a network. On error nothing is left of it.
func Up(ctx context.Context, o Options) (_ *Net, err error) {
	if o.N < 1 || o.N > MaxNodes {
		return nil, status.Errorf(status.BadRequest, "a testnet of %d nodes: must be 1 to %d", o.N, MaxNodes)
	}
	o.hash = b3.NewHashQueue(runtime.GOMAXPROCS(0))
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	n := &Net{
		dir: dir, o: o, verb: make(chan struct{}, 1),
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: askWithin},
		want: condition{n: o.N}, pushed: make([]api.Faults, o.N),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Down(context.WithoutCancel(ctx)))
		}
	}()
	if n.lock, err = lockDir(dir); err != nil {
		return nil, err
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

// member makes a node's home, with its identity if there is a seed.
func (n *Net) member(number int) (*Member, error) {
	m := &Member{Name: fmt.Sprintf("node %d", number), Number: number, Home: filepath.Join(n.dir, fmt.Sprint(number))}
	socket, err := api.SocketPath(m.Home)
	if err != nil {
		return nil, err
	}
	if m.API, err = client.New(socket); err != nil {
		return nil, err
	}
	if n.o.Seed == 0 {
		return m, nil
	}
	return m, giveIdentity(m.Home, n.o.Seed, number)
}

// seedsFor are the addresses a node starts from: of the first node, or, where
// it is that one or the first does not run, of up to two others.
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

// Dir is the directory of the network, with the homes below it.
func (n *Net) Dir() string { return n.dir }

// Down drains every node that runs, all at once, waits for their end and
// removes the homes.
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
