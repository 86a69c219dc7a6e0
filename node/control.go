package node

import (
	"time"

	"allium/gateway/api"
	"allium/gateway/policy"
	"allium/node/health"
	"allium/node/p2p"
	"allium/protocols/status"
)

// control implements localapi.Control: what the local API can change of a node.
type control struct{ *Node }

// errNoFaults is the error of SetFaults on a node that is not part of a testnet.
var errNoFaults = status.Errorf(status.Unsupported,
	"this node injects no faults: only a node of a testnet does (node.profile = %q)", p2p.Testnet)

// Faults implements localapi.Control.
func (c control) Faults() api.Faults {
	if c.faults == nil {
		return api.Faults{}
	}
	return c.faults.Get()
}

// SetFaults implements localapi.Control.
func (c control) SetFaults(f api.Faults) (api.Faults, error) {
	if c.faults == nil {
		return api.Faults{}, errNoFaults
	}
	return c.faults.Set(f)
}

// ReloadStatus implements localapi.Control.
func (c control) ReloadStatus(token string) (api.Reloaded, error) { return c.reloads.Status(token) }

// Reloads implements local.Control.
func (c control) Reloads() []api.Reloaded { return c.reloads.Reloads() }

// Traffic implements local.Control.
func (c control) Traffic() api.Traffic {
	in, out := c.objects.Traffic()
	return api.Traffic{In: in, Out: out}
}

// Configuration implements localapi.Control.
func (c control) Configuration() api.Configuration { return c.reloads.Configuration() }

// healthOf returns what answers for the health of the node.
func healthOf(n *Node) *health.Health {
	return health.New(health.Deps{
		Store: n.store, Host: n.host, Ready: n.board.Report, Clock: n.clock.State, Table: n.dht.Table,
		Fill: n.dht.Fill, Begun: time.Now(), Profile: string(n.cfg.Node.Profile), Amnesia: n.cfg.Node.Amnesia,
	})
}

// filter returns the filter of one part of the node, which counts its denials under where.
func (n *Node) filter(where string) policy.Filter { return n.denylist.At(where) }
