package node

import (
	"allium/gateway/api"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// control is the node as its local API asks it.
type control struct{ *Node }

// errNoFaults is the answer of a node that is not one of a testnet.
var errNoFaults = status.Errorf(status.Unsupported, "faults are set on a node of a testnet alone (node.profile = %q); this one does nothing wrong on purpose", p2p.Testnet)

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

// denied asks the denylist at a place that it counts.
func (n *Node) denied(where string, root b3.Root) error { return n.denylist.At(where).Object(root) }
