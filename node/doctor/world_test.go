package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"iter"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node/config"
	"allium/node/doctor"
	homedir "allium/node/home"
	"allium/protocols/status"
	"allium/store/bucket/s3"
)

// seedID is the id of a seed, and of a peer.
const (
	seedID = "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"
	selfID = "12D3KooWA5geUFjtNendjSP4BWTMNHMHPUGr3q7bqSASZafV9hX7"
)

var errDown = &status.Error{Outcome: status.NotReady, Err: client.ErrNotRunning, Message: "no node is running"}

// fakeNode is a node that answers what a test sets. It is down if err is set.
type fakeNode struct {
	err     error
	health  api.Health
	version api.Version
	peers   []api.Peer
	reach   api.Reach
	seeds   api.Seeds
	copies  api.Durability
	copyErr error
	names   []api.OwnName
	hangs   bool
}

func (n *fakeNode) wait(ctx context.Context) error {
	if n.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return n.err
}

func (n *fakeNode) Health(ctx context.Context, _ api.HealthOptions) (api.Health, error) {
	if err := n.wait(ctx); err != nil {
		return api.Health{}, err
	}
	return n.health, nil
}

func (n *fakeNode) ID(ctx context.Context) (api.ID, error) { return api.ID{ID: selfID}, n.wait(ctx) }
func (n *fakeNode) Version(ctx context.Context) (api.Version, error) {
	return n.version, n.wait(ctx)
}
func (n *fakeNode) Peers(ctx context.Context) ([]api.Peer, error)  { return n.peers, n.wait(ctx) }
func (n *fakeNode) Reach(ctx context.Context) (api.Reach, error)   { return n.reach, n.wait(ctx) }
func (n *fakeNode) Seeds(ctx context.Context) (api.Seeds, error)   { return n.seeds, n.wait(ctx) }
func (n *fakeNode) Limits(ctx context.Context) (api.Limits, error) { return api.Limits{}, n.wait(ctx) }
func (n *fakeNode) Durability(ctx context.Context) (api.Durability, error) {
	return n.copies, errors.Join(n.copyErr, n.wait(ctx))
}

func (n *fakeNode) OwnNames(ctx context.Context) iter.Seq2[api.OwnName, error] {
	return func(yield func(api.OwnName, error) bool) {
		if err := n.wait(ctx); err != nil {
			yield(api.OwnName{}, err)
			return
		}
		for _, name := range n.names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// shut closes a gate of readiness.
func (n *fakeNode) shut(name, fix string) {
	for i, g := range n.health.Readiness.Gates {
		if g.Name == name {
			n.health.Readiness.Gates[i].Ready, n.health.Readiness.Gates[i].Fix = false, fix
			return
		}
	}
	n.health.Readiness.Gates = append(n.health.Readiness.Gates, api.Gate{Name: name, Fix: fix})
}

// world is a machine with a node, all well at first.
type world struct {
	t    *testing.T
	home string
	root string // of proc and sys
	node *fakeNode
	fs   doctor.FileSystem
	deps doctor.Deps

	interfaces []netip.Prefix
	syncTime   time.Duration
	syncErr    error
}

// now is the time in every world.
var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

type closer struct{}

func (closer) Close() error { return nil }

// newWorld makes a world with a real home directory, and with a running node unless stopped.
func newWorld(t *testing.T, stopped bool) *world {
	t.Helper()
	w := &world{
		t: t, home: filepath.Join(t.TempDir(), "home"), root: t.TempDir(),
		fs: doctor.FileSystem{
			Kind: "ext4", Bytes: 1 << 40, FreeBytes: 1 << 39, Inodes: 1 << 24, FreeInodes: 1 << 23,
		},
		interfaces: []netip.Prefix{netip.MustParsePrefix("8.8.4.4/24"), netip.MustParsePrefix("127.0.0.1/8")},
		syncTime:   time.Millisecond,
	}
	seed := "/ip4/1.1.1.1/tcp/4901/p2p/" + seedID
	cfg := w.load(nil)
	_, err := homedir.Init(w.home, cfg)
	w.must(err)
	for _, name := range []string{homedir.KeyFile, "config.toml"} { // another clock made them
		w.must(os.Chtimes(homedir.Path(w.home, name), now, now))
	}
	w.file("proc/sys/net/core/somaxconn", "4096\n")
	w.file("proc/sys/net/core/rmem_max", "8388608\n")
	w.file("proc/sys/net/core/wmem_max", "8388608\n")
	w.file("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\n")
	w.file("proc/swaps", "Filename Type Size Used Priority\n")
	w.file("proc/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"+
		"eth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n")
	w.node = healthyNode()
	w.deps = doctor.Deps{
		Home: w.home, Config: cfg, Node: w.node, Version: w.node.version,
		Sample: func(context.Context) (api.StoreSample, error) { return api.StoreSample{Objects: 3}, nil },
		Now:    func() time.Time { return now },
		Machine: doctor.Machine{
			Root: w.root, OpenFiles: func() int64 { return 1 << 20 },
			Statfs:     func(string) (doctor.FileSystem, error) { return w.fs, nil },
			Interfaces: func() ([]netip.Prefix, error) { return w.interfaces, nil },
			Sync:       func(string) (time.Duration, error) { return w.syncTime, w.syncErr },
		},
		Network: doctor.Network{
			Dial: func(context.Context, string, string) (net.Conn, error) {
				a, b := net.Pipe()
				return a, b.Close()
			},
			Listen:  func(context.Context, string, string) (io.Closer, error) { return closer{}, nil },
			Resolve: func(context.Context, string) error { return nil },
			Bucket:  func(context.Context, s3.Config) error { return nil },
		},
	}
	w.deps.Config.DHT.Seeds.Bootstrap = []string{seed}
	if stopped {
		w.node.err = errDown
	} else {
		w.lock()
	}
	return w
}

// healthyNode is a node with all that it wants.
func healthyNode() *fakeNode {
	gates := []api.Gate{}
	for _, name := range []string{
		"started", "accepting", "store_writes", "store_integrity", "store_space", "audit", "clock", "identity",
		"routing_table", "tls_certificate", "store_bucket", "pressure_reads",
	} {
		gates = append(gates, api.Gate{Name: name, Ready: true})
	}
	confirmed := func(addr string) api.ReachAddr {
		return api.ReachAddr{
			Addr: addr, Scope: api.ReachAnyone, Via: "interface", State: api.ReachConfirmed, Announced: true,
		}
	}
	return &fakeNode{
		version: api.Version{Version: "v0.1.0", Commit: "abc"},
		health: api.Health{
			Profile: "desktop", Readiness: api.Readiness{Ready: true, Gates: gates},
			Clock: api.ClockHealth{Known: true, OffsetMS: 40, Voices: 5, Need: 3},
			Table: api.TableHealth{Peers: 40, Public: 40, Networks: 30, Largest: 3, Have: 30, Need: 20, Known: true},
			Process: api.ProcessHealth{
				Goroutines: 900, Conns: 20, Streams: 40, OpenFiles: 1 << 20, MemoryLimit: 1 << 30,
			},
			Sample: &api.StoreSample{Objects: 50, Bytes: 1 << 20},
		},
		peers: []api.Peer{
			{ID: seedID, Addr: "/ip4/1.1.1.1/udp/4901/quic-v1", Transport: "quic", Direction: "out"},
		},
		reach: api.Reach{
			From: api.ReachAnyone, Peers: 20, Confirmers: 8,
			NAT: api.ReachNAT{UDP: "endpoint_independent", TCP: "endpoint_independent"},
			Addrs: []api.ReachAddr{
				confirmed("/ip4/8.8.4.4/udp/4901/quic-v1"), confirmed("/ip4/8.8.4.4/tcp/4901"),
				confirmed("/ip6/2a00::1/udp/4901/quic-v1"), confirmed("/ip6/2a00::1/tcp/4901"),
			},
		},
		seeds: api.Seeds{Seeds: []api.Seed{{ID: seedID, Connected: true}}},
		names: []api.OwnName{{Name: "blog.k51", Value: "text", NotAfter: now.Add(6 * 24 * time.Hour), Peers: 3}},
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// load reads the configuration of the home with some values set.
func (w *world) load(flags map[string]any) config.Loaded {
	w.t.Helper()
	cfg, err := config.Load(config.Options{File: filepath.Join(w.home, config.FileName), Flags: flags})
	w.must(err)
	return cfg
}

// file writes a file below the root of the machine.
func (w *world) file(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(text), 0o644))
}

// lock keeps the home directory locked, as a node does.
func (w *world) lock() {
	w.t.Helper()
	unlock, err := homedir.Lock(w.home)
	w.must(err)
	w.t.Cleanup(unlock)
}

// process makes a process that has a file open for writing.
func (w *world) process(pid, command, target string) {
	w.t.Helper()
	dir := filepath.Join("proc", pid)
	w.file(filepath.Join(dir, "comm"), command+"\n")
	w.file(filepath.Join(dir, "fdinfo", "3"), "pos:\t0\nflags:\t0100002\n")
	w.must(os.MkdirAll(filepath.Join(w.root, dir, "fd"), 0o755))
	w.must(os.Symlink(target, filepath.Join(w.root, dir, "fd", "3")))
}

// certificate writes a certificate and its key, and configures them.
func (w *world) certificate(from, to time.Time, names []string, keyMode os.FileMode) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, NotBefore: from, NotAfter: to,
		DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	w.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	w.must(err)
	write := func(name, kind string, der []byte, mode os.FileMode) {
		w.must(os.WriteFile(filepath.Join(w.home, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode))
	}
	write("cert.pem", "CERTIFICATE", der, 0o644)
	write("cert.key", "PRIVATE KEY", private, keyMode)
	w.deps.Config.Gateway.TLS.Cert, w.deps.Config.Gateway.TLS.Key = "cert.pem", "cert.key"
}

// read returns a file of the home directory.
func (w *world) read(name string) []byte {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.home, name))
	w.must(err)
	return raw
}

// run examines the world.
func (w *world) run() doctor.Report {
	r, _ := doctor.Run(w.t.Context(), w.deps, nil)
	return r
}

// of returns the findings of a check.
func of(r doctor.Report, check string) (found []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

// names returns the names of skipped checks.
func skipped(r doctor.Report) (names []string) {
	for _, s := range r.Skipped {
		names = append(names, s.Check)
	}
	slices.Sort(names)
	return names
}
