package testnet

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"

	homedir "allium/node/home"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// Member is one node of the network.
type Member struct {
	Name   string // "node 1" …
	Number int    // from 1
	Home   string
	API    *client.Client // stays valid after a restart

	mu  sync.Mutex // guards the rest; lock: leaf
	id  api.ID
	run *running // nil when the node was killed or has not started
}

// running is a started node.
type running struct {
	stop  func(context.Context) error // drains the node and waits for its end
	kill  func(context.Context) error // ends the node at once and waits
	ended <-chan struct{}             // closed when the node has ended for any reason
}

// ID returns the node's identity and addresses. For a killed node these are its last
// ones.
func (m *Member) ID() api.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Running reports whether the node was started, was not killed since, and has not ended
// by itself.
func (m *Member) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return false
	}
	select {
	case <-m.run.ended:
		return false
	default:
		return true
	}
}

// take returns the running node and removes it from m. The caller ends it.
func (m *Member) take() *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run
	m.run = nil
	return r
}

// start starts the node and waits until it is ready. A node that has run before asks for
// the ports it had. It gets other ones when these are taken.
func (m *Member) start(ctx context.Context, o Options, seeds []string) error {
	before := m.ID()
	at := place{home: m.Home, seeds: seeds}
	for _, a := range before.Addrs {
		listen, _, _ := strings.Cut(a, "/p2p/")
		at.listen = append(at.listen, listen)
	}
	at.gateway, at.admin = strings.TrimPrefix(before.Gateway, "http://"), strings.TrimPrefix(before.Admin, "http://")
	o.Binary = o.program(m.Number)
	r, err := launch(ctx, o, at)
	if err != nil && before.ID != "" && portTaken(err) {
		r, err = launch(ctx, o, place{home: m.Home, seeds: seeds})
	}
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	id, err := m.API.ID(ask)
	if err != nil {
		return errors.Join(err, r.stop(context.WithoutCancel(ctx)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.run = id, r
	return nil
}

// portTaken reports whether a node did not start because another program has its port. A node in another process says
// so only in the text of the error: that of the peers' listeners or that of the gateway.
func portTaken(err error) bool {
	said := err.Error()
	return strings.Contains(said, syscall.EADDRINUSE.Error()) || strings.Contains(said, "the port is in use")
}

// stop drains the node, if it runs, and waits for its end.
func (m *Member) stop(ctx context.Context) error {
	defer m.API.Close()
	if r := m.take(); r != nil {
		return r.stop(ctx)
	}
	return nil
}

// kill ends the node at once.
func (m *Member) kill(ctx context.Context, inside bool) error {
	defer m.API.Close() // its open connections are dead
	if inside {
		m.cut(ctx)
	}
	r := m.take()
	if r == nil {
		return nil
	}
	return r.kill(ctx)
}

// cut closes the node's connections without a GOAWAY, as a crash does.
func (m *Member) cut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	peers, err := m.API.Peers(ctx)
	if err != nil {
		return // the node does not answer, so it sends no GOAWAY either
	}
	for _, p := range peers {
		_ = m.API.Disconnect(ctx, p.ID) // not_found for the second connection to one peer
	}
}

// place is the home and the addresses of a node. Empty fields are its profile's defaults.
type place struct {
	home           string
	seeds          []string
	listen         []string
	gateway, admin string
}

// launch starts a node and waits until it is ready.
func launch(ctx context.Context, o Options, at place) (*running, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if o.Binary != "" {
		return startProcess(ctx, o.Binary, at)
	}
	return startInside(ctx, at, o)
}

// startInside runs a node in this process.
func startInside(ctx context.Context, at place, o Options) (*running, error) {
	cfg := config.Default(p2p.Testnet)
	cfg.DHT.Seeds.Bootstrap = at.seeds
	if len(at.listen) > 0 {
		cfg.Listen.Listen, cfg.Gateway.Listen, cfg.Admin.Listen = at.listen, at.gateway, at.admin
	}
	nd, err := node.New(at.home, cfg, node.Deps{Log: o.Log, Process: o.process})
	if err != nil {
		return nil, err
	}
	var (
		waiting sync.WaitGroup
		ended   error
		done    = make(chan struct{})
		ready   = make(chan struct{})
	)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	waiting.Go(func() {
		defer close(done)
		ended = nd.Run(run, func() { close(ready) })
	})
	r := &running{ended: done, stop: func(context.Context) error { // Run bounds its own end
		cancel()
		waiting.Wait()
		return ended
	}}
	r.kill = func(ctx context.Context) error {
		_ = r.stop(ctx) // a kill does not care for what could not be finished
		return nil
	}
	select {
	case <-ready:
		return r, nil
	case <-done:
		cancel()
		return nil, errors.Join(status.Errorf(status.Internal, "the node ended before it was ready"), ended)
	case <-ctx.Done():
		return nil, errors.Join(notReady(ctx), r.stop(ctx))
	}
}

// notReady returns why a start was given up: it took too long, or the caller left.
func notReady(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return status.Errorf(status.Timeout, "not ready in time, which is %s at most", readyWithin)
}

// giveIdentity writes the key that a node has in every network of the same seed.
func giveIdentity(home string, seed uint64, number int) error {
	salt := binary.BigEndian.AppendUint64([]byte("allium testnet identity"), seed)
	secret := sha256.Sum256(binary.BigEndian.AppendUint64(salt, uint64(number)))
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(secret[:]))
	if err != nil {
		return err
	}
	return homedir.Give(home, key)
}

// Readiness returns a node's /readyz.
func (n *Net) Readiness(ctx context.Context, m *Member) (api.Readiness, error) {
	var r api.Readiness
	page, err := n.page(ctx, m, "/readyz")
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(page, &r); err != nil {
		return r, status.Errorf(status.Upstream,
			"%s: /readyz is not what this version of allium expects: %w", m.Name, err)
	}
	return r, nil
}

// maxPage bounds a page of a node's admin listener. No page is as long.
const maxPage = 8 << 20

// page returns a page of a node's admin listener, also while the node is not ready.
func (n *Net) page(ctx context.Context, m *Member, path string) ([]byte, error) {
	if !m.Running() {
		return nil, down(m)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ID().Admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := n.http.Do(req)
	if err != nil {
		return nil, status.Errorf(status.TransportDown, "%s does not answer %s: %w", m.Name, path, err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return nil, status.Errorf(status.TransportDown, "%s does not answer %s: %w", m.Name, path, err)
	}
	return page, nil
}

// down returns the error of a request to a node that was killed.
func down(m *Member) error {
	return status.Errorf(status.NotReady, "%s does not run; `restart %d` starts it", m.Name, m.Number)
}
