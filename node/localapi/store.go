// Package localapi answers what the command line and the admin listener ask of a
// node. Three types do, each for what there is: [Node] for a node that runs,
// [Store] for a store that no node runs, [Gateway] for what can be read through
// somebody else's gateway.
package localapi

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/node/objects"
	"allium/node/tree"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
)

// Config says what kind of node an API is of.
type Config struct {
	SpoolDir     string // where an add may keep a file without a name; "" for none
	InRAM        bool   // the store is in RAM
	Seed         bool   // the node holds no content
	SeedManifest bool   // the node follows a signed list of seeds
}

// stored is what the API of a store has, whether or not a node runs it. It
// implements api.Store.
type stored struct {
	reader
	cfg    Config
	st     *store.Store
	tars   *tree.TarAdder
	around surroundings
}

var _ api.Store = (*stored)(nil)

// surroundings is what is around a store: the node that runs it, or nothing.
type surroundings interface {
	// repairs returns why nothing can be fetched again, nil where it can.
	repairs() error
	// repair fetches an object that is damaged or missing.
	repair(ctx context.Context, root b3.Root) error
	// lost is told of what a pin promises and is not whole here.
	lost(l gc.Lost)
	// pinned is told of every new pin.
	pinned(ctx context.Context, root b3.Root)
}

// alone surrounds a store that no node runs.
type alone struct{}

func (alone) repairs() error                        { return errNoRepair }
func (alone) repair(context.Context, b3.Root) error { return errNoRepair }
func (alone) lost(gc.Lost)                          {}
func (alone) pinned(context.Context, b3.Root)       {}

// errNoRepair says why nothing is fetched again.
var errNoRepair = status.Errorf(status.NotReady, "no node runs that could fetch what is damaged; start one with `allium run`, or leave --repair out")

// Store is the API of a store that no node runs.
type Store struct{ stored }

// NewStore returns the API of a store that somebody else runs.
func NewStore(st *store.Store, cfg Config) *Store {
	return &Store{stored{
		reader: reader{inTurn{hereAlone{objects.Local{Store: st}}}}, cfg: cfg, st: st, tars: tree.NewTarAdder(cfg.SpoolDir, nil), around: alone{},
	}}
}

// hereAlone opens what is in the store, and says what would help where an object
// is missing.
type hereAlone struct{ objects.Local }

// Open implements content.Opener.
func (l hereAlone) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	c, err := l.Local.Open(ctx, root, o)
	if status.Of(err) == status.NotFound {
		return nil, status.Errorf(status.NotFound, "%s is not in the store, and no node runs that could fetch it; start one with `allium run`", root)
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
		return nil, status.Errorf(status.Amnesia, "this node keeps its store in RAM and nothing for long; send the files themselves")
	}
	has, err := a.st.Keep(ctx, roots)
	if err != nil {
		return nil, err
	}
	have := make([]bool, len(roots))
	for i, p := range has {
		have[i] = p == b3.Complete
	}
	return have, nil
}
