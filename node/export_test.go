package node

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/tasks"
	"allium/node/reload"
	"allium/node/supervise"
	"allium/protocols/index"
	"allium/protocols/object"
	"allium/resolver/trace"
	"allium/store"
	"allium/store/cluster/wire"
)

// ObjectClient returns the client with which the node asks peers for objects, and puts them.
func (n *Node) ObjectClient() *object.Client { return n.objects }

// Tasks returns what the node lists of its services and pools.
func (n *Node) Tasks() []tasks.Info { return n.tasks.Snapshot() }

// Store returns the node's store.
func (n *Node) Store() *store.Store { return n.store }

// RepairClient returns a client that asks members of the cluster as the node does. It proves and challenges nothing.
func (n *Node) RepairClient() (*wire.Client, error) {
	minter, err := n.capabilities.Minter()
	if err != nil {
		return nil, err
	}
	return wire.NewClient(wire.ClientDeps{
		Call: n.sessions, Capability: minter.Replicate, Answered: func(peer.ID) {}, Refused: minter.Refused,
	}), nil
}

// IndexClient returns a client with which the node asks peers who has an object.
func (n *Node) IndexClient() *index.Client { return index.NewClient(n.sessions, n.dht) }

// WrapServices replaces the run of each service that a node starts, before it runs.
func (n *Node) WrapServices(wrap func(name string, run supervise.Run) supervise.Run) {
	n.services = supervise.New(supervise.Deps{Env: env.Env{Log: n.log, Tasks: n.tasks}, Wrap: wrap})
}

// Failure returns why a service has failed for good, or nil.
func (n *Node) Failure() error { return n.services.Err() }

// Addresses returns how many addresses the node knows of a peer.
func (n *Node) Addresses(id string) int {
	p, err := peer.Decode(id)
	if err != nil {
		panic(err)
	}
	return len(n.host.Peerstore().Addrs(p))
}

// AddReloadTask adds a task to the reloads of a node, before it runs.
func (n *Node) AddReloadTask(name string, task func(context.Context) error) {
	n.reloads.Add(reload.File{Name: name, Reload: task})
}

// Lookups returns the ring of lookups of a node.
func Lookups(n *Node) *trace.Ring { return n.trace }
