// Package cluster joins the planner of store/cluster/upkeep with the network and the store of a node: proofs
// and targets travel in requests of store/cluster/wire, copies in puts of protocols/object.
//
// Invariants:
//
//   - A member is shown a capability for this cluster that counts at it alone, for one object where
//     there is one. When it knows no key of it, the next one is minted with the key before.
//   - An object that the denylist names is neither sent nor proved.
//   - A copy that this node proves, it reads for the proof.
package cluster

import (
	"context"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/gateway/policy/capabilities"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/erasure"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/cluster/shards"
	"allium/store/cluster/upkeep"
	protocol "allium/store/cluster/wire"
)

// Members are the members of the cluster.
type Members interface {
	View() *plan.View
	Member(p peer.ID) error // nil for a peer that is a present member
	Contact(p peer.ID)      // notes that a member answered
	// Resume ends the time in which only last copies are sent, and returns how many members are silent now.
	Resume() (silent int)
	// Draining returns since when this node hands its copies over, the zero time if it does not. Drain begins that and
	// StopDraining ends it; both outlast a restart.
	Draining() time.Time
	Drain() (since time.Time, err error)
	StopDraining() error
}

// Deps holds the dependencies of a Keeper. Audit and Records may be nil, no other field.
type Deps struct {
	env.Env

	Self     peer.ID
	Members  Members
	Store    *store.Store
	Repairs  *repair.Repairs
	Sessions *session.Service
	Objects  *object.Client
	Minter   *capabilities.Minter
	Coded    func(root b3.Root)  // takes note that this node holds a piece of an object; it does not block
	Filter   policy.Filter       // of objects that are sent, proved and read
	Audit    policy.Audit        // nil: there is no audit log
	Changed  func(upkeep.Change) // is told what changed; it does not wait
	Records  ds.Datastore        // keeps what holders proved; nil: nothing does
}

// Keeper keeps the copies that pins ask for. Its methods are safe for concurrent use.
type Keeper struct {
	*upkeep.Service
	Coder  *shards.Coder
	deps   Deps
	client *protocol.Client
	server *protocol.Server
}

// New returns a Keeper.
func New(p plan.Params, d Deps) (*Keeper, error) {
	k := &Keeper{deps: d}
	k.client = protocol.NewClient(protocol.ClientDeps{
		Call: d.Sessions, Capability: d.Minter.Replicate, Answered: d.Members.Contact, Refused: d.Minter.Refused,
		Draw: protocol.Draw, Chunks: k.chunks, Slice: k.slice,
	})
	k.Coder = shards.New(shards.Deps{
		Env: d.Env, Self: d.Self, Store: d.Store, Objects: d.Objects, Put: k.putObject,
		Coding:  func(object b3.Root) (b3.Root, *erasure.Manifest, bool) { return k.Coding(object) },
		Holders: func(manifest b3.Root) []plan.Holder { return k.Holders(manifest) },
		Missed:  func(manifest b3.Root) { k.Missed(manifest) },
		Members: k.present, Filter: d.Filter,
	})
	k.Service = upkeep.New(p, upkeep.Deps{
		Env:  d.Env,
		Self: plan.ID(d.Self), View: d.Members.View, Draining: d.Members.Draining, Store: d.Store, Prover: k.client,
		Repairs: d.Repairs, Coder: k.Coder, Coded: d.Coded,
		Send: k.send, Dropping: k.dropping, Changed: d.Changed, Records: d.Records,
		Below: d.Store.Collector().Below,
	})
	var err error
	k.server, err = protocol.NewServer(protocol.ServerDeps{
		Env: d.Env, Holder: k.Service, Member: d.Members.Member, Proof: k.prove,
	})
	return k, err
}

// Ask is the [session.Ask] of requests of members.
func Ask(r *session.Request) (capability.Request, error) { return protocol.Ask(r) }

// Handle is the [session.Handler] of requests of members.
func (k *Keeper) Handle(ctx context.Context, from peer.ID, r *session.Request) session.Response {
	return k.server.Handle(ctx, from, r)
}

// Copy is a copy that a member has put here, with the targets that it tells.
type Copy = protocol.Copy

// Copies takes over the targets of copies that a member has just put here, and returns the reply for each.
func (k *Keeper) Copies(ctx context.Context, from peer.ID, copies []Copy) [][]byte {
	return k.server.Copies(ctx, from, copies)
}

// present returns the members that are present.
func (k *Keeper) present() (list []peer.ID) {
	for _, m := range k.deps.Members.View().Members() {
		if !m.Gone {
			list = append(list, peer.ID(m.ID))
		}
	}
	return list
}
