package kadhost

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p-kbucket/peerdiversity"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// GroupFilter bounds how many peers of one IP group a bucket of kad-dht's table
// holds. The node's own table has the same bound. It is needed here too, because
// kad-dht answers others from its table, and because kad-dht never queries a peer that
// arrives while its bucket is full, so that the node's own table would not learn of
// that peer.
//
// GroupFilter implements [peerdiversity.PeerIPGroupFilter]. It exempts peers that have
// only addresses of local networks. It is safe for concurrent use.
type GroupFilter struct {
	limit int // most peers of one group in a bucket
	addrs func(peer.ID) []ma.Multiaddr

	mu     sync.Mutex          // lock: leaf
	counts map[bucketGroup]int // each above 0; bounded by the size of the table
}

type bucketGroup struct {
	bucket int
	group  peerdiversity.PeerIPGroupKey
}

// localAddr stands for all addresses of a peer that has no public one.
var localAddr = ma.StringCast("/ip4/127.0.0.1")

var localGroup = groupKey(localAddr)

// NewGroupFilter returns a filter that admits limit peers of one IP group to a
// bucket. addrs returns the addresses of a peer, and nil if none are known.
func NewGroupFilter(limit int, addrs func(peer.ID) []ma.Multiaddr) *GroupFilter {
	return &GroupFilter{limit: limit, addrs: addrs, counts: map[bucketGroup]int{}}
}

// groupKey returns the IP group of a, and "" for an address without an IP.
func groupKey(a ma.Multiaddr) peerdiversity.PeerIPGroupKey {
	ip, err := manet.ToIP(a)
	if err != nil {
		return ""
	}
	return peerdiversity.IPGroupKey(ip)
}

// PeerAddresses returns one address for each group of p. It returns none if no
// address of p is known, and kad-dht then refuses p.
func (g *GroupFilter) PeerAddresses(p peer.ID) []ma.Multiaddr {
	known := g.addrs(p)
	var one []ma.Multiaddr
	var groups []peerdiversity.PeerIPGroupKey
	for _, a := range known {
		if k := groupKey(a); k != "" && manet.IsPublicAddr(a) && !slices.Contains(groups, k) {
			one, groups = append(one, a), append(groups, k)
		}
	}
	if len(one) == 0 && len(known) > 0 {
		return []ma.Multiaddr{localAddr}
	}
	return one
}

// Allow reports whether the bucket may hold another peer of the group.
func (g *GroupFilter) Allow(i peerdiversity.PeerGroupInfo) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return i.IPGroupKey == localGroup || g.counts[bucketGroup{i.Cpl, i.IPGroupKey}] < g.limit
}

// Increment counts a peer that was added.
func (g *GroupFilter) Increment(i peerdiversity.PeerGroupInfo) { g.add(i, 1) }

// Decrement counts a peer that was removed.
func (g *GroupFilter) Decrement(i peerdiversity.PeerGroupInfo) { g.add(i, -1) }

func (g *GroupFilter) add(i peerdiversity.PeerGroupInfo, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := bucketGroup{i.Cpl, i.IPGroupKey}
	if g.counts[k] += n; g.counts[k] == 0 {
		delete(g.counts, k)
	}
}
