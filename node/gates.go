package node

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/env"
	"allium/node/p2p"
	"allium/node/readiness"
	"allium/node/readiness/clock"
	"allium/node/readiness/descriptors"
	"allium/node/supervise"
	"allium/protocols/dht/seeds"
	"allium/protocols/session"
	"allium/store"
)

// How many seeds must be connected for the gate bootstrap to open (SPEC §5).
const (
	seedsNeeded        = 3
	seedsNeededTestnet = 1
)

// The gate durability shuts when at least behindLeast objects, and one of behindShare, have lost copies.
const (
	behindLeast = 1000
	behindShare = 10
)

// gates returns the conditions of readiness, in the order in which they open when
// the node starts.
func (n *Node) gates() []readiness.Gate {
	gates := []readiness.Gate{
		{Name: "started", Check: func() readiness.Reading {
			return readiness.YesNo(n.started.Load(), "wait: the node is starting; its log says what it is waiting for")
		}},
		{Name: "accepting", Check: func() readiness.Reading {
			return readiness.YesNo(!n.draining.Load(), "the node is stopping; use another, or wait until it is back")
		}},
		{Name: "store_writes", Scope: readiness.Writes, Check: func() readiness.Reading {
			err := n.store.Stats().WriteErr
			return readiness.YesNo(err == nil, fmt.Sprintf("the store has stopped writing after an error: %v; "+
				"repair the disk and restart the node", err))
		}},
		{Name: "store_integrity", Scope: readiness.Writes, Check: func() readiness.Reading {
			err := n.store.UnknownLoss()
			return readiness.YesNo(err == nil, fmt.Sprint(err))
		}},
		{Name: "store_space", Scope: readiness.Writes, Check: n.spaceGate},
		{Name: "audit", Scope: readiness.Writes, Check: n.auditGate},
		{Name: "durability", Scope: readiness.Writes, Check: n.durabilityGate},
		{Name: "descriptors", Check: func() readiness.Reading {
			short, what := descriptors.Short(n.store.Stats().Files.Last, time.Now())
			r := readiness.YesNo(!short, what)
			r.RetryAfter = time.Second
			return r
		}},
		{Name: "bootstrap", Scope: readiness.Network, Check: n.bootstrapGate},
		{Name: "routing_table", Scope: readiness.Network, Check: n.tableGate},
		{Name: "clock", Scope: readiness.Writes, Check: n.clockGate},
		{Name: "seed_manifest", Scope: readiness.Network, Check: n.manifestGate},
		{Name: "session_workers", Check: n.workersGate},
		{Name: "identity", Scope: readiness.Nothing, Check: n.duplicates.gate},
		{Name: "records", Scope: readiness.Nothing, Check: n.recordsGate},
		{Name: "pressure_writes", Scope: readiness.Writes, Check: n.pressure.Writes},
		{Name: "pressure_reads", Check: n.pressure.Reads},
		{Name: "packs", Check: func() readiness.Reading {
			if !n.started.Load() {
				return readiness.YesNo(true, "") // before the start the gate started is shut
			}
			return n.packs.Gate()
		}},
		{Name: "fills", Scope: readiness.Nothing, Check: func() readiness.Reading {
			if !n.started.Load() {
				return readiness.YesNo(true, "") // before the start the gate started is shut
			}
			return n.fills.Gate()
		}},
	}
	if n.cfg.Gateway.TLS.Enabled() {
		gates = append(gates, readiness.Gate{Name: "tls_certificate", Check: n.certificateGate})
	}
	if n.cfg.Store.Backend == store.BackendS3 {
		gates = append(gates, readiness.Gate{Name: "store_bucket", Check: n.bucketGate})
	}
	return gates
}

// durabilityGate is shut while the repair of copies is so far behind that new content should go elsewhere. An object
// that never had all its copies does not count: it is new, or asks for more than the cluster can hold.
func (n *Node) durabilityGate() readiness.Reading {
	if !n.started.Load() || n.copies == nil {
		return readiness.YesNo(true, "")
	}
	sum := n.copies.Sum()
	bound := int64(max(behindLeast, sum.Objects/behindShare))
	return readiness.Reading{
		Have: max(bound-int64(sum.Behind), 0), Need: 1, RetryAfter: time.Minute,
		Fix: fmt.Sprintf(
			"%d objects have lost copies that are not made again yet; `allium durability` says how far it "+
				"is, and which members are gone or full", sum.Behind),
	}
}

// spaceGate is shut while the store refuses puts because it is full. Have and Need
// are bytes: those that are free on the disk, or those left below the store's
// bound. If the store is full by its number of objects, they are 0 and 1.
func (n *Node) spaceGate() readiness.Reading {
	sp := n.store.Collector().Space()
	r := readiness.Reading{Fix: sp.FullReason, RetryAfter: 5 * time.Second}
	switch {
	case !sp.Full:
		return readiness.YesNo(true, "")
	case sp.Free >= 0 && sp.Free < sp.Reserve+sp.ReopenBytes:
		r.Have, r.Need = sp.Free, sp.Reserve+sp.ReopenBytes
	case sp.Max.Bytes > 0 && sp.Max.Bytes-sp.Used.Bytes < sp.ReopenBytes:
		r.Have, r.Need = max(0, sp.Max.Bytes-sp.Used.Bytes), sp.ReopenBytes
	default: // full by number of objects; or no longer full, which the store notices within 5 s
		r.Need = 1
	}
	return r
}

// bucketGate is shut while the bucket of the s3 backend cannot be reached. Until
// then nothing can be put, and only what is on this machine can be read.
func (n *Node) bucketGate() readiness.Reading {
	err := n.store.Stats().BucketErr
	r := readiness.YesNo(err == nil,
		fmt.Sprintf("%v; only what is on this machine is served: check the network and the "+
			"service at store.s3.endpoint, see docs/running/bucket.md#when-something-fails", err))
	r.RetryAfter = 5 * time.Second
	return r
}

// bootstrapGate is open while 3 seeds are connected, or all if fewer are valid;
// in a testnet, while 1 is. The first node of a network has no seed and needs none.
func (n *Node) bootstrapGate() readiness.Reading {
	r := readiness.Reading{
		Fix: "none of the seeds answers, or too few; `allium seeds` shows them: " +
			"check the network, dht.bootstrap and dht.seed_manifest",
		RetryAfter: 5 * time.Second,
	}
	if !n.started.Load() {
		r.Need = int64(min(1, len(n.cfg.DHT.Seeds.Bootstrap)))
		return r
	}
	now := n.now()
	for _, s := range n.dht.Seeds() {
		if !s.NotAfter.IsZero() && s.NotAfter.Before(now) {
			continue
		}
		r.Need++
		if s.Connected {
			r.Have++
		}
	}
	most := int64(seedsNeeded)
	if n.cfg.Node.Profile == p2p.Testnet {
		most = seedsNeededTestnet
	}
	r.Need = min(r.Need, most)
	return r
}

// manifestGate is shut while the file of the seed manifest is rejected or has
// expired, even if an older manifest is still in force.
func (n *Node) manifestGate() readiness.Reading {
	if !n.started.Load() || n.cfg.DHT.Seeds.SeedManifest == "" {
		return readiness.YesNo(true, "") // before the start the gate started is shut
	}
	err := n.dht.SeedManifest().Err
	r := readiness.YesNo(err == "",
		err+": `allium seeds inspect` shows the file, and dht.seed_authorities names who may sign it")
	r.RetryAfter = 5 * time.Second
	return r
}

// clockGate is shut while this machine's clock is known to be wrong. Have is the
// number of seconds by which it exceeds the limit, negative.
func (n *Node) clockGate() readiness.Reading {
	s := n.clock.State()
	if !s.Wrong() {
		return readiness.YesNo(true, "")
	}
	direction := "ahead of"
	if s.Offset < 0 {
		direction = "behind"
	}
	return readiness.Reading{
		Have: min(int64((clock.Limit-s.Offset.Abs())/time.Second), -1), Need: 0, RetryAfter: 10 * time.Second,
		Fix: fmt.Sprintf("this machine's clock is %s %s %d groups of peers: set it (timedatectl, chrony); "+
			"until then nothing is announced, and nothing is deleted because of its age",
			s.Offset.Abs().Round(time.Second), direction, s.Voices),
	}
}

// newClock creates the watch that compares this machine's clock with peers'.
func (n *Node) newClock() error {
	configured, err := seeds.ParseAddrs(n.cfg.DHT.Seeds.Bootstrap)
	if err != nil {
		return err
	}
	var ids []peer.ID
	for _, s := range configured {
		ids = append(ids, s.ID)
	}
	n.clock = clock.New(clock.Deps{
		Env:   env.Env{Log: n.log, Metrics: n.registry, Now: func() time.Time { return n.now() }},
		Conns: func() []network.Conn { return n.host.Network().Conns() },
		Ask: func(ctx context.Context, p peer.ID) (session.Clock, bool, error) {
			return n.sessions.Clock(ctx, p)
		},
		Seeds: ids,
	})
	return nil
}

func (n *Node) startClock(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "clock", Doc: "compares the clock with those of peers", Run: n.clock.Run,
	})
}

// workersGate is open while three quarters of the goroutines that answer the
// requests of peers are alive. A dead one is replaced within two seconds.
func (n *Node) workersGate() readiness.Reading {
	if !n.started.Load() {
		return readiness.YesNo(true, "") // before the start the gate started is shut
	}
	alive, all := n.sessions.Workers()
	return readiness.Reading{
		Have: int64(alive), Need: int64(all) - int64(all)/4, RetryAfter: time.Second,
		Fix: "workers of sessions died of a bug and are being replaced; report the bug with its stack, which is in " +
			"the log",
	}
}

// tableGate is open while the routing table has 60 % of the peers that its buckets
// can hold in a network of the estimated size. A node without seeds and with no
// estimate yet is the first of its network: its gate is open.
func (n *Node) tableGate() readiness.Reading {
	r := readiness.Reading{
		Fix:        "too few peers speak the DHT with this node yet; wait, or `allium connect` to one",
		RetryAfter: 5 * time.Second,
	}
	if !n.started.Load() {
		r.Need = int64(min(1, len(n.cfg.DHT.Seeds.Bootstrap)))
		return r
	}
	have, need, known := n.dht.Fill()
	if known || len(n.dht.Seeds()) > 0 {
		r.Have, r.Need = int64(have), int64(need)
	}
	return r
}

// Readiness reads every gate, as /readyz does.
func (n *Node) Readiness() api.Readiness { return n.board.Report() }

// reportReadiness reads every gate, and publishes those that have opened or shut since
// the call before. One goroutine calls it.
func (n *Node) reportReadiness() api.Readiness {
	r := n.board.Report()
	n.events.Readiness(r)
	return r
}

func (n *Node) startReadiness(ctx context.Context) error {
	run := func(ctx context.Context, ready func()) error {
		ready()
		readiness.Log(ctx, n.env(), n.reportReadiness, n.draining.Load)
		return nil
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "readiness", Owner: "node/readiness", Doc: "logs gates that open and shut", Run: run,
	})
}

func (n *Node) startCapabilities(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "capabilities", Doc: "watches the keys and the list of what is revoked", Run: n.capabilities.Run,
	})
}

func (n *Node) startEvents(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "events", Doc: "passes events on to readers", Run: n.events.Run,
	})
}
