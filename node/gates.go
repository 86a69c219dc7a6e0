package node

import (
	"fmt"
	"time"

	"allium/node/p2p"
)

// Seeds that must be reachable (SPEC §5).
const (
	seedsNeeded        = 3
	seedsNeededTestnet = 1
)

// spaceGate shuts when puts are refused for want of room, and opens when
// enough was removed or unpinned. It counts the bytes that are free, or those
// below the bound.
func (n *Node) spaceGate() Reading {
	sp := n.store.Space()
	r := Reading{Fix: sp.FullReason, RetryAfter: 5 * time.Second}
	switch {
	case !sp.Full:
		return yesNo(true, "")
	case sp.Free >= 0 && sp.Free < 2*sp.Reserve:
		r.Have, r.Need = sp.Free, 2*sp.Reserve
	case sp.Used.Bytes > sp.Low.Bytes:
		r.Have, r.Need = max(0, sp.Max.Bytes-sp.Used.Bytes), sp.Max.Bytes-sp.Low.Bytes
	default:
		r.Have, r.Need = max(0, sp.Max.Objects-sp.Used.Objects), sp.Max.Objects-sp.Low.Objects
	}
	return r
}

// bucketGate shuts while the bucket of the s3 backend is away: what is not here
// can be neither read nor put.
func (n *Node) bucketGate() Reading {
	err := n.store.Stats().BucketErr
	r := yesNo(err == nil, fmt.Sprintf("%v; what is on this machine is served: check the network, the service at store.s3.endpoint and docs/S3.md", err))
	r.RetryAfter = 5 * time.Second
	return r
}

// bootstrapGate needs 3 seeds of those that may be dialled, or all where there
// are fewer; 1 in a testnet. The first node of a network has none and needs none.
func (n *Node) bootstrapGate() Reading {
	r := Reading{Fix: "none of the seeds answers, or too few; `allium seeds` shows them: check the network, dht.bootstrap and dht.seed_manifest", RetryAfter: 5 * time.Second}
	if !n.started.Load() {
		r.Need = int64(min(1, len(n.cfg.DHT.Seeds.Bootstrap)))
		return r
	}
	now := n.faults.now()
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

// workersGate needs three quarters of the goroutines that answer the requests of
// peers. One that dies is replaced within two seconds.
func (n *Node) workersGate() Reading {
	if !n.started.Load() {
		return yesNo(true, "") // the gate before says so
	}
	alive, want := n.sessions.Workers()
	return Reading{
		Have: int64(alive), Need: int64(want) - int64(want)/4, RetryAfter: time.Second,
		Fix: "workers of sessions died of a bug and are being replaced; the log says of which: report it with its stack",
	}
}

// tableGate needs 60 % of what the buckets of the routing table can hold in a
// network of the estimated size. A node that has no seeds is the first of its
// network until somebody comes.
func (n *Node) tableGate() Reading {
	r := Reading{Fix: "too few peers speak the DHT with this node yet; wait, or `allium connect` to one", RetryAfter: 5 * time.Second}
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
