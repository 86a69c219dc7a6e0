package dht

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p-kbucket/peerdiversity"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// groupShare keeps one IP group from more than its share of a bucket of
// kad-dht's own table too: that table answers others, and kad-dht does not look
// at a peer that comes while the bucket is full, so that ours would not hear of
// it either.
//
// It implements [peerdiversity.PeerIPGroupFilter]. Addresses that only a local
// network can use are exempt.
type groupShare struct {
	limit int // peers of one group in a bucket
	addrs func(peer.ID) []ma.Multiaddr

	mu     sync.Mutex
	counts map[bucketGroup]int // of more than zero: bounded by the table
}

type bucketGroup struct {
	bucket int
	group  peerdiversity.PeerIPGroupKey
}

// exempt stands for all addresses of a peer that has no public one.
var exempt = ma.StringCast("/ip4/127.0.0.1")

var exemptGroup = groupKey(exempt)

func newGroupShare(cfg Config, addrs func(peer.ID) []ma.Multiaddr) *groupShare {
	return &groupShare{limit: cfg.routing().GroupCap(), addrs: addrs, counts: map[bucketGroup]int{}}
}

// groupKey is empty for an address without an IP.
func groupKey(a ma.Multiaddr) peerdiversity.PeerIPGroupKey {
	ip, err := manet.ToIP(a)
	if err != nil {
		return ""
	}
	return peerdiversity.IPGroupKey(ip)
}

// PeerAddresses is one address for each group of p; none, which keeps it out,
// when nothing is known of p.
func (g *groupShare) PeerAddresses(p peer.ID) []ma.Multiaddr {
	known := g.addrs(p)
	var one []ma.Multiaddr
	var groups []peerdiversity.PeerIPGroupKey
	for _, a := range known {
		if k := groupKey(a); k != "" && manet.IsPublicAddr(a) && !slices.Contains(groups, k) {
			one, groups = append(one, a), append(groups, k)
		}
	}
	if len(one) == 0 && len(known) > 0 {
		return []ma.Multiaddr{exempt}
	}
	return one
}

// Allow reports whether the group has room in the bucket.
func (g *groupShare) Allow(i peerdiversity.PeerGroupInfo) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return i.IPGroupKey == exemptGroup || g.counts[bucketGroup{i.Cpl, i.IPGroupKey}] < g.limit
}

// Increment counts a peer in.
func (g *groupShare) Increment(i peerdiversity.PeerGroupInfo) { g.count(i, 1) }

// Decrement counts a peer out.
func (g *groupShare) Decrement(i peerdiversity.PeerGroupInfo) { g.count(i, -1) }

func (g *groupShare) count(i peerdiversity.PeerGroupInfo, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := bucketGroup{i.Cpl, i.IPGroupKey}
	if g.counts[k] += by; g.counts[k] == 0 {
		delete(g.counts, k)
	}
}
