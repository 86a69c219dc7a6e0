package members

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/store/cluster/plan"
)

// rendezvousContext is the context of the derived key under which the members publish provider
// records.
const rendezvousContext = "allium cluster rendezvous 1"

// The bounds and times of a cluster's members.
const (
	// earlyOffers are the offers after the first one that are sent earlyEvery apart, as the
	// first ones may find no peer.
	earlyOffers = 5
	earlyEvery  = time.Second
	// ringPoll is the interval at which a node without a ring looks for one.
	ringPoll = 10 * time.Second
	// minGap is the shortest time between two offers of one author that are relayed. A node
	// sends two at least earlyEvery less its jitter apart.
	minGap = earlyEvery / 2
	// lifetime is the time for which an offer is valid.
	lifetime = 5 * time.Minute
	// maxAuthors bounds the authors whose latest message is remembered.
	maxAuthors = 4096
	// searchSoon is the wait after the first search; each further one in vain doubles it, up to
	// Config.Search.
	searchSoon = time.Second
	// maxDials bounds the providers that one search connects to for each key of the ring, and
	// dialTimeout each connection.
	maxDials    = 32
	dialTimeout = 10 * time.Second
)

// Config says who this node is in its cluster, and how often it sends.
type Config struct {
	Region, Domain string
	Only           []peer.ID     // who may be a member; empty: all with a key of the ring
	Every          time.Duration // between two offers
	Search         time.Duration // between two searches for members, when one found some
	Durability     plan.Params
	// File keeps over a restart that this node hands its copies over; empty: only RAM does.
	File string
}

// mayBe reports whether a peer may be a member.
func (c Config) mayBe(p peer.ID) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, p)
}

// longestEvery and longestSearch are the times of a node with the default grace and more.
const (
	longestEvery  = 2 * time.Minute
	longestSearch = 10 * time.Minute
)

// NewConfig returns the times that go with p: a member sends several offers within the grace.
func NewConfig(p plan.Params) Config {
	return Config{Every: min(longestEvery, p.Grace/5), Search: min(longestSearch, p.Grace), Durability: p}
}

// register registers the metrics of what view returns.
func register(reg prometheus.Registerer, view func() *plan.View) {
	if reg == nil {
		return
	}
	gauge := func(state string, gone bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "durability_members", Help: "Members of this node's cluster, itself included: present, or gone.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 {
			n := 0
			for _, m := range view().Members() {
				if m.Gone == gone {
					n++
				}
			}
			return float64(n)
		})
	}
	reg.MustRegister(gauge("present", false), gauge("gone", true))
}
