// Package testnet runs a local network: N nodes of the testnet profile over
// loopback, in one process or in one each, with homes in one temporary
// directory and no fixed ports.
//
// [Up] starts the nodes one after the other, the first as everybody's seed, and
// returns when each of them is ready. A [Member] is used through its local API,
// whether it lives in this process or another. [Net.Down] drains all of them
// and removes the homes.
//
// [Demo] is the tour that `make testnet` runs: a real directory is added on one
// node, found through the DHT by another, fetched, compared byte by byte, and
// read through the gateway.
package testnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"allium/gateway/client"
	"allium/node"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// Options describe a network.
type Options struct {
	N      int          // nodes, 1 to 200
	Binary string       // runs one process of this program for each node; empty: all in this process
	Log    *slog.Logger // of nodes in this process; nil discards
}

// MaxNodes bounds a network: every node costs some 30 MiB.
const MaxNodes = 200

// Member is one node of the network.
type Member struct {
	Name string // "node 1" …
	Home string
	ID   client.ID
	API  *client.Client

	stop func(context.Context) error // drains the node and waits for its end
}

// Net is a running network.
type Net struct {
	Members []*Member
	dir     string
}

// readyWithin bounds the start of one node, on a machine with other work.
const readyWithin = time.Minute

// Up starts a network. On error nothing is left of it.
func Up(ctx context.Context, o Options) (_ *Net, err error) {
	if o.N < 1 || o.N > MaxNodes {
		return nil, status.Errorf(status.BadRequest, "a testnet of %d nodes: must be 1 to %d", o.N, MaxNodes)
	}
	dir, err := os.MkdirTemp("", "allium-testnet-")
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	n := &Net{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Down(context.WithoutCancel(ctx)))
		}
	}()
	var seed []string
	for i := range o.N {
		m, err := start(ctx, o, fmt.Sprintf("node %d", i+1), filepath.Join(dir, fmt.Sprint(i+1)), seed)
		if err != nil {
			return nil, fmt.Errorf("testnet: node %d: %w", i+1, err)
		}
		n.Members = append(n.Members, m)
		if i == 0 {
			seed = m.ID.Addrs
		}
	}
	return n, nil
}

// start starts one node and waits until it is ready.
func start(ctx context.Context, o Options, name, home string, seed []string) (*Member, error) {
	m := &Member{Name: name, Home: home}
	socket, err := client.SocketPath(home)
	if err != nil {
		return nil, err
	}
	if m.API, err = client.New(socket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if o.Binary != "" {
		m.stop, err = startProcess(ctx, o.Binary, home, seed)
	} else {
		m.stop, err = startInside(ctx, home, seed, o.Log)
	}
	if err != nil {
		return nil, err
	}
	if m.ID, err = m.API.ID(ctx); err != nil {
		return nil, errors.Join(err, m.stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// startInside runs a node in this process.
func startInside(ctx context.Context, home string, seed []string, log *slog.Logger) (stop func(context.Context) error, err error) {
	cfg := config.Default(p2p.Testnet)
	cfg.DHT.Seeds.Bootstrap = seed
	nd, err := node.New(home, cfg, node.Deps{Log: log})
	if err != nil {
		return nil, err
	}
	var (
		running sync.WaitGroup
		ended   error
		done    = make(chan struct{})
		ready   = make(chan struct{})
	)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() {
		defer close(done)
		ended = nd.Run(run, func() { close(ready) })
	})
	stop = func(context.Context) error { // Run bounds its own end
		cancel()
		running.Wait()
		return ended
	}
	select {
	case <-ready:
		return stop, nil
	case <-done:
		cancel()
		return nil, ended
	case <-ctx.Done():
		return nil, errors.Join(notReady(ctx), stop(ctx))
	}
}

// notReady is why a node was given up: it took too long, or nobody waits.
func notReady(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return status.Errorf(status.Timeout, "not ready within %s", readyWithin)
}

// Down drains every node, all at once, waits for their end and removes the
// homes.
func (n *Net) Down(ctx context.Context) error {
	errs := make([]error, len(n.Members))
	var wg sync.WaitGroup
	for i, m := range n.Members {
		wg.Go(func() {
			m.API.Close()
			if err := m.stop(ctx); err != nil {
				errs[i] = fmt.Errorf("testnet: %s: %w", m.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}
