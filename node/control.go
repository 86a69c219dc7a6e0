package node

import (
	"allium/gateway/api"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/name"
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

// denied returns an error if the denylist names root. The denylist counts the
// refusal under where.
func (n *Node) denied(where string, root b3.Root) error { return n.denylist.At(where).Object(root) }

// deniedToPublish returns an error if the denylist names a name or its zone.
func (n *Node) deniedToPublish(what name.Name) error { return n.denylist.At("publish").Name(what) }
