package gateway

import (
	"errors"
	"net/netip"
	"sync"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// ipCounts counts what each IPv4 address or IPv6 /64 has, under one limit. There
// are at most as many gates as things counted.
type ipCounts struct {
	family *admission.GateFamily
	mu     sync.Mutex
	gates  map[netip.Prefix]*ipGate
}

// ipGate is one client's.
type ipGate struct {
	*admission.FamilyGate
	n int // places taken; guarded by the ipCounts' mu
}

// newIPCounts counts up to most of each; 0: no bound.
func newIPCounts(r *admission.Registry, s admission.Spec, most int) *ipCounts {
	if most == 0 {
		return nil
	}
	return &ipCounts{family: r.NewGateFamily(s, int64(most)), gates: map[netip.Prefix]*ipGate{}}
}

// enter counts one in, or returns busy with the limit. A nil ipCounts has no
// bound.
func (c *ipCounts) enter(p netip.Prefix) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[p]
	if g == nil {
		g = &ipGate{FamilyGate: c.family.Gate()}
		c.gates[p] = g
	}
	var full *status.Error
	if err := g.TryAcquire(); errors.As(err, &full) {
		full.Outcome = status.Busy // quota is for peers
		return nil, full
	}
	g.n++
	return func() { c.leave(p, g) }, nil
}

func (c *ipCounts) leave(p netip.Prefix, g *ipGate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.Release()
	if g.n--; g.n == 0 {
		delete(c.gates, p)
	}
}
