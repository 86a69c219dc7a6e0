// Package local implements the local API of a node, which the command line and the
// admin listener call. It has three implementations: [Node] for a running node,
// [Store] for a store while no node runs, and [Gateway] for reading through the
// gateway of another node.
//
// # Invariants
//
// Every byte that a call returns was proved against its address. A call ends with its context, and returns only after
// the goroutines that it started. The objects of an add or an upload are protected from garbage collection until the
// pin is set.
//
// # One request
//
// Package reading reads objects by key: `allium get b3:…/src` calls Get of [reading.Reader], which all three have.
// Calls that change the store (Add, Pin, GC, Verify) are methods of stored, which Node and Store share; stored calls
// its nodeHooks with what a running node must know. `allium pin add b3:…` calls Pin: it finds the object that the key
// names, sets the pin in the store, and tells the hooks, which announce the object.
package local

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/node/files"
	"allium/node/local/opener"
	"allium/node/local/reading"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
)

// Config describes the node whose API this is.
type Config struct {
	SpoolDir     string                 // directory for unnamed files of an add; "": the node writes none
	InRAM        bool                   // the store is in RAM
	Seed         bool                   // the node holds no content
	NoCluster    bool                   // the node joins no cluster
	Targets      map[string]meta.Target // copies that pins ask for that say nothing of it, by label
	SeedManifest bool                   // the node uses a signed list of seeds
	// the store ends with the command that uses it, and a get may take files out of it
	MovesFiles bool

	// RestoresFiles says that the store has files, and copies back those that it gives to a get.
	RestoresFiles bool
}

// reader has what reads by key: the methods of api.Reader, and those that find what a key names.
type reader = reading.Reader

// stored implements api.Store, with or without a running node.
type stored struct {
	*reader
	cfg      Config
	st       *store.Store
	archives *files.ArchiveAdder
	node     nodeHooks
}

var _ api.Store = (*stored)(nil)

// restoresIn returns a directory on the file system of the store's files, or "" if the store does not
// restore them.
func (c Config) restoresIn() string {
	if !c.RestoresFiles {
		return ""
	}
	return c.SpoolDir
}

// nodeHooks are the calls of a store to the node that runs it.
type nodeHooks interface {
	// canRepair returns an error if damaged objects cannot be fetched again.
	canRepair() error
	// repair fetches a damaged or missing object.
	repair(ctx context.Context, root b3.Root) error
	// lost takes a pinned object that is missing or damaged.
	lost(l gc.Lost)
	// pinned takes every new pin.
	pinned(ctx context.Context, root b3.Root, label string, recursive bool)
	// targeted takes every target of a pin that was set or removed.
	targeted(ctx context.Context, p meta.Pin) error
	// renounce removes what a node asks for of an object, or this node if no peer is named; see durability.Renounce.
	renounce(ctx context.Context, root b3.Root, origin peer.ID) error
	// unpinned takes every pin that was removed.
	unpinned(root b3.Root, label string)
}

// noNode are the hooks of a store that no node runs.
type noNode struct{}

func (noNode) canRepair() error                              { return errNoRepair }
func (noNode) repair(context.Context, b3.Root) error         { return errNoRepair }
func (noNode) lost(gc.Lost)                                  {}
func (noNode) pinned(context.Context, b3.Root, string, bool) {}
func (noNode) targeted(context.Context, meta.Pin) error      { return nil }
func (noNode) renounce(context.Context, b3.Root, peer.ID) error {
	return errNoNode
}
func (noNode) unpinned(b3.Root, string) {}

// errNoNode refuses to remove what other nodes ask for while no node runs.
var errNoNode = status.Errorf(status.NotReady,
	"what other nodes ask for is known to a running node: start it with `allium run`")

// errNoRepair refuses a repair while no node runs.
var errNoRepair = status.Errorf(status.NotReady,
	"no node runs that could fetch damaged objects. Start one with `allium run`, or leave --repair out")

// Store is the API of a store while no node runs. It implements api.Store.
type Store struct{ stored }

// NewStore returns the API of st. The caller closes st after the last call.
func NewStore(st *store.Store, cfg Config) *Store {
	return &Store{stored{
		reader: reading.New(reading.Options{
			Source:   reading.InOrder(storeOnly{opener.Local{Store: st}}),
			Keys:     names.Addresses{Without: "no node runs that could resolve a name. Start one with `allium run`"},
			Prefixed: st.Prefixed, WritesFiles: cfg.SpoolDir != "",
		}),
		cfg: cfg, st: st, archives: files.NewArchiveAdder(cfg.SpoolDir, nil), node: noNode{},
	}}
}

// storeOnly opens objects of the store. The error of a missing object says that a
// running node could fetch it.
type storeOnly struct{ opener.Local }

// Open implements content.Opener.
func (l storeOnly) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	c, err := l.Local.Open(ctx, root, o)
	if status.Of(err) == status.NotFound {
		return nil, status.Errorf(status.NotFound,
			"%s is not in the store, and no node runs that could fetch it; start one with `allium run`", root)
	}
	return c, err
}

// Stat implements api.Store.
func (a *stored) Stat(ctx context.Context, key string) (api.Stat, error) {
	st, err := a.reader.Stat(ctx, key)
	if err != nil {
		return api.Stat{}, err
	}
	switch _, err := a.st.Stat(ctx, st.Root); {
	case err == nil:
		st.Local = true
	case status.Of(err) != status.NotFound:
		return api.Stat{}, err
	}
	st.Pins, err = a.pinsOf(ctx, st.Root)
	return st, err
}

// Keep implements api.Store.
func (a *stored) Keep(ctx context.Context, roots []b3.Root) ([]bool, error) {
	if a.cfg.InRAM {
		return nil, status.Errorf(status.Amnesia,
			"the store of this node is in RAM and may lose objects soon; send the files themselves")
	}
	has, err := a.st.Touch(ctx, roots)
	if err != nil {
		return nil, err
	}
	have := make([]bool, len(roots))
	for i, p := range has {
		have[i] = p == b3.Complete
	}
	return have, nil
}
