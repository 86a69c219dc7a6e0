package node

import (
	"allium/gateway/api"
	"allium/protocols/object"
	"allium/store"
)

// ObjectClient returns the client with which the node asks peers for objects, and puts them.
func (n *Node) ObjectClient() *object.Client { return n.objects }

// Readiness reads every gate, as /readyz does.
func (n *Node) Readiness() api.Readiness { return n.board.Report() }

// Store returns the node's store.
func (n *Node) Store() *store.Store { return n.store }
