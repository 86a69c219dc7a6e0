// Package sessions measures requests over the sessions of nodes.
package sessions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"golang.org/x/sync/errgroup"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// The load of many sessions.
const (
	manyPeers   = 2000
	manyDials   = 16              // at once
	manyEvery   = 4 * time.Second // one request of each session
	manyWarm    = 10 * time.Second
	probeEvery  = 100 * time.Millisecond
	collections = 2 // of garbage before memory is read
)

// manyLimits lets a node of the testnet profile take so many peers, and keep
// sessions on which nothing but pings and refused requests go.
var manyLimits = []string{
	"ALLIUM_LISTEN__CONNS_LOW=" + strconv.Itoa(2*manyPeers),
	"ALLIUM_LISTEN__CONNS_HIGH=" + strconv.Itoa(3*manyPeers),
	"ALLIUM_LISTEN__MAX_CONNS=" + strconv.Itoa(4*manyPeers),
	"ALLIUM_LISTEN__MAX_SESSIONS=" + strconv.Itoa(4*manyPeers),
	"ALLIUM_LISTEN__MAX_MEMORY=8GiB", // that the transports promise, not that they take
	"ALLIUM_SESSION__IDLE_TIMEOUT=24h",
}

// Many opens a session with a node from each of many identities over loopback TCP, and lets each ask now and
// then. Half of the requests are PING, and half of a protocol that the node does not serve: a whole way through the
// session and back.
func Many(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	var (
		many  = fmt.Sprintf("%d sessions: ", manyPeers)
		conn  = measure.Row{What: many + "RSS of a connection", Unit: "KB"}
		rss   = measure.Row{What: many + "RSS of a session beyond it", Unit: "KB", Target: "≤ 40"}
		live  = measure.Row{What: many + "live heap and stacks of a session", Unit: "KB"}
		gor   = measure.Row{What: many + "goroutines of a session", Unit: ""}
		grown = measure.Row{What: fmt.Sprintf("%sRSS after %s ÷ before", many, s.Hold/2), Unit: "×"}
		more  = measure.Row{What: fmt.Sprintf("%sRSS after %s ÷ after half of it", many, s.Hold),
			Unit: "×", Target: "≤ 1.02"}
		still = measure.Row{What: many + "live memory, the same", Unit: "×", Target: "≤ 1.02"}
		asked = measure.Row{What: many + "requests", Unit: "/s"}
		lost  = measure.Row{What: many + "rejected or lost", Unit: "%", Target: "< 1"}
		p50   = measure.Row{What: many + "p50 of a request", Unit: "ms"}
		p99   = measure.Row{What: many + "p99 of a request", Unit: "ms"}
		fast  = measure.Row{What: many + "readyz, p99", Unit: "ms", Target: "< 30"}
		slow  = measure.Row{What: many + "readyz, slowest", Unit: "ms", Target: "< 30"}
		bad   = measure.Row{What: many + "readyz, not 200", Unit: "answers", Target: "0"}
		bare9 = measure.Row{What: many + "a bare HTTP server, p99", Unit: "ms"}
		bare  = measure.Row{What: many + "a bare HTTP server, slowest", Unit: "ms"}
		busy  = measure.Row{What: many + "CPU of the node", Unit: "% of cores"}
		other = measure.Row{What: many + "CPU of other programs meanwhile", Unit: "% of cores"}
	)
	add := func(r *measure.Row, v float64) { r.Values = append(r.Values, v) }
	node, err := startRoomy(ctx, s)
	if err != nil {
		return nil, err
	}
	plain, err := bed.Reference(ctx, "http")
	if err != nil {
		return nil, err
	}
	empty, err := settled(ctx, node)
	if err != nil {
		return nil, err
	}
	peers := make([]*caller, manyPeers)
	defer func() { err = errors.Join(err, closeAll(peers)) }()
	if err := startMany(ctx, peers, node.Addr); err != nil {
		return nil, err
	}
	connected, err := settled(ctx, node)
	if err != nil {
		return nil, err
	}
	of := func(a, b, n float64) float64 { return (b - a) / n / 1e3 }
	add(&conn, of(empty.rss, connected.rss, manyPeers))

	// Warm up: the sessions open, and buffers and stacks get the size they need.
	if w := askMany(ctx, node, plain, peers, manyWarm); w.err != nil {
		return nil, w.err
	}
	opened, err := settled(ctx, node)
	if err != nil {
		return nil, err
	}
	add(&rss, of(connected.rss, opened.rss, manyPeers))
	add(&live, of(connected.live, opened.live, manyPeers))
	add(&gor, (opened.goroutines-connected.goroutines)/manyPeers)

	from, err := measure.Take(node)
	if err != nil {
		return nil, err
	}
	r := askMany(ctx, node, plain, peers, s.Hold/2)
	if r.err != nil {
		return nil, r.err
	}
	half, err := settled(ctx, node)
	if err != nil {
		return nil, err
	}
	r.add(askMany(ctx, node, plain, peers, s.Hold/2))
	if r.err != nil {
		return nil, r.err
	}
	to, err := measure.Take(node)
	if err != nil {
		return nil, err
	}
	after, err := settled(ctx, node)
	if err != nil {
		return nil, err
	}
	add(&grown, half.rss/opened.rss)
	add(&more, after.rss/half.rss)
	add(&still, after.live/half.live)
	add(&asked, float64(len(r.took)+r.lost)/s.Hold.Seconds())
	add(&lost, 100*float64(r.lost)/float64(len(r.took)+r.lost))
	add(&p50, bed.MS(measure.Quantile(r.took, 50)))
	add(&p99, bed.MS(measure.Quantile(r.took, 99)))
	add(&fast, bed.MS(measure.Quantile(r.probes, 99)))
	add(&slow, bed.MS(r.probes[len(r.probes)-1]))
	add(&bad, float64(r.unready))
	add(&bare9, bed.MS(measure.Quantile(r.bare, 99)))
	add(&bare, bed.MS(r.bare[len(r.bare)-1]))
	own, others := to.Since(from)
	add(&busy, own)
	add(&other, others)
	if err := bed.StopAll([]*measure.Process{node, plain}); err != nil {
		return nil, err
	}
	return []measure.Row{conn, rss, live, gor, grown, more, still, asked, lost, p50, p99, fast, slow, bad, bare9, bare,
		busy, other}, nil
}

// startRoomy starts a node with manyLimits, with a gateway and an admin
// listener.
func startRoomy(ctx context.Context, s *bed.Settings) (*measure.Process, error) {
	return measure.Start(ctx, manyLimits, s.Allium, "--home", filepath.Join(s.Dir, "many"), "--log-level", "error",
		"run", "--profile", "testnet", "--listen", bed.OnTCP, "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
}

// startMany connects as many small hosts to the node, each with a service.
func startMany(ctx context.Context, peers []*caller, addr string) error {
	cfg := session.DefaultConfig()
	cfg.Workers, cfg.IdleTimeout = 1, 24*time.Hour
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(manyDials)
	for i := range peers {
		g.Go(func() error {
			h, err := smallHost()
			if err != nil {
				return err
			}
			// Not ctx: it ends with the group, and the services go on.
			peers[i], err = startCaller(context.WithoutCancel(ctx), h, addr, cfg)
			return err
		})
	}
	return g.Wait()
}

// smallHost is a host that only dials, over TCP.
func smallHost() (host.Host, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	return libp2p.New(libp2p.Identity(key), libp2p.NoListenAddrs, libp2p.DisableRelay(), libp2p.DisableMetrics(),
		libp2p.DisableIdentifyAddressDiscovery(), libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.ConnectionManager(connmgr.NullConnMgr{}), libp2p.Security(tls.ID, tls.New),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport), libp2p.Transport(tcp.NewTCPTransport))
}

func closeAll(peers []*caller) error {
	var g errgroup.Group
	g.SetLimit(manyDials)
	for _, c := range peers {
		if c != nil {
			g.Go(c.close)
		}
	}
	return g.Wait()
}

// manyAsked holds the results of the requests of many sessions.
type manyAsked struct {
	took    []time.Duration // of those that were answered, sorted
	lost    int             // the others
	probes  []time.Duration // of readyz, sorted
	unready int             // of them
	bare    []time.Duration // of the bare server meanwhile, sorted
	err     error           // of a probe
}

func (a *manyAsked) sort() {
	slices.Sort(a.took)
	slices.Sort(a.probes)
	slices.Sort(a.bare)
}

// add takes what came of more requests to it.
func (a *manyAsked) add(b manyAsked) {
	a.took, a.probes, a.bare = append(a.took, b.took...), append(a.probes, b.probes...), append(a.bare, b.bare...)
	a.lost, a.unready, a.err = a.lost+b.lost, a.unready+b.unready, errors.Join(a.err, b.err)
	a.sort()
}

// askMany lets each peer ask once in manyEvery, spread over it, for d, and
// probes the node's readiness all the while, and the bare server in turn: what
// that is late by is the machine's.
func askMany(ctx context.Context, node, bare *measure.Process, peers []*caller, d time.Duration) (all manyAsked) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		begun   = time.Now()
	)
	for i, c := range peers {
		running.Go(func() {
			offset := time.Duration(i) * manyEvery / time.Duration(len(peers))
			for n := 0; ; n++ {
				due := begun.Add(offset + time.Duration(n)*manyEvery)
				if due.Sub(begun) >= d || ctx.Err() != nil {
					return
				}
				time.Sleep(time.Until(due))
				ok := c.askOnce(ctx, (i+n)%2 == 0)
				took := time.Since(due)
				mu.Lock()
				if ok {
					all.took = append(all.took, took)
				} else {
					all.lost++
				}
				mu.Unlock()
			}
		})
	}
	running.Go(func() {
		client := http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		for time.Since(begun) < d && all.err == nil && ctx.Err() == nil {
			sent := time.Now()
			code, _, err := measure.Get(ctx, &client, node.Gate+"/readyz")
			all.probes = append(all.probes, time.Since(sent))
			if code != http.StatusOK {
				all.unready++
			}
			time.Sleep(probeEvery)
			sent = time.Now()
			_, _, failed := measure.Get(ctx, &client, bare.Gate)
			all.bare, all.err = append(all.bare, time.Since(sent)), errors.Join(err, failed)
			time.Sleep(probeEvery)
		}
	})
	running.Wait()
	all.sort()
	if all.err == nil && len(all.took) == 0 {
		all.err = errors.New("no request was answered")
	}
	return all
}

// askOnce says whether the node answered: a PING, or a refusal that it does not
// serve the protocol.
func (c *caller) askOnce(ctx context.Context, ping bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if ping {
		_, err := c.Ping(ctx, c.server)
		return err == nil
	}
	_, err := c.Call(ctx, c.server, oap.ProtoRepair, smallRequest)
	return status.Of(err) == status.BadFrame
}

// footprint is the memory of a node in bytes, and its number of goroutines.
type footprint struct {
	rss, live  float64 // live: of the heap and of stacks, after a collection
	goroutines float64
}

// settled reads a node's memory after it has collected its garbage a few times,
// which reading its metrics makes it do in the end.
func settled(ctx context.Context, p *measure.Process) (f footprint, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	var until float64
	for {
		_, page, err := measure.Get(ctx, &client, p.Admin+"/metrics")
		if err != nil {
			return f, err
		}
		m := measure.Metrics(page)
		cycles := m["go_gc_duration_seconds_count"]
		if until == 0 {
			until = cycles + collections
		}
		if cycles < until {
			continue
		}
		// The target of the next collection is twice what was live at the last,
		// stacks counted once: GOGC is 100.
		stacks := m["go_memstats_stack_inuse_bytes"]
		f = footprint{live: (m["go_memstats_next_gc_bytes"]-stacks)/2 + stacks, goroutines: m["go_goroutines"]}
		rss, err := p.Memory()
		f.rss = float64(rss)
		return f, err
	}
}
