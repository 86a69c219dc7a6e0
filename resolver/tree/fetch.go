package tree

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/resolver/providers"
	"allium/resolver/transfer"
)

// Info is what Fetch did.
type Info struct {
	Root         b3.Root
	Directory    bool  // false: the root was one object and no directory
	Objects      int64 // files, directories and parts of directories, the root included
	Bytes        int64 // of those
	Fetched      int64 // objects that came from peers
	FetchedBytes int64
	Resumed      int64 // bytes that an earlier fetch, cut short, had left of those objects
	Skipped      int64 // objects that were local already, or occurred before in the tree
	Peers        int   // that sent something
	Duration     time.Duration
	LookupID     string
}

// Config bounds the fetching of trees. The resolver's configuration documents
// the fields.
type Config struct {
	Trees    int64 // at the same time; as many wait
	Requests int   // in flight for one tree
	Large    int   // large files in flight for one tree, on top of Requests
	Tries    int   // how often the providers of a batch are gone through
}

// Local is the node's own store, as trees need it.
type Local interface {
	// Open returns a complete object; status.NotFound when it is not here.
	Open(ctx context.Context, root b3.Root) (b3.Object, error)
	// Has reports, for each of at most 1,024 roots, whether it is here, complete.
	Has(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Put stores the object root, whose bytes are p, and does not keep p. It is
	// durable, and visible, after the next Flush at the latest.
	Put(ctx context.Context, root b3.Root, p []byte) error
	// Flush makes everything that was put or committed before it durable.
	Flush(ctx context.Context) error
	// Lease keeps objects, present or still to come, from being deleted until
	// release is called.
	Lease(roots ...b3.Root) (release func())
}

// Deps are what trees work with. Limits may be nil.
type Deps struct {
	Local     Local
	Pool      *providers.Pool
	Transfers *transfer.Set
	Denied    func(root b3.Root) error // says why an object must not be fetched
	Received  prometheus.Counter       // bytes of objects that came many in one request
	Limits    *limits.Registry
}

// Fetcher fetches trees. Its methods may be called from any goroutine.
type Fetcher struct {
	cfg       Config
	local     Local
	pool      *providers.Pool
	transfers *transfer.Set
	denied    func(b3.Root) error
	received  prometheus.Counter
	gate      *limits.Gate

	mu    sync.Mutex
	turns map[b3.Root]chan struct{} // closed when the fetch that put it there ends
}

// New returns a fetcher. It starts nothing.
func New(cfg Config, d Deps) *Fetcher {
	return &Fetcher{
		cfg: cfg, local: d.Local, pool: d.Pool, transfers: d.Transfers, denied: d.Denied, received: d.Received,
		gate: d.Limits.NewGate(limits.Spec{
			Name: "resolver.trees", Path: "gateway, commands → directory fetches", Policy: "as many wait, the rest are refused with busy",
		}, cfg.Trees, cfg.Trees),
		turns: map[b3.Root]chan struct{}{},
	}
}

// Options name the peers that may have a tree, and a function that hears of its
// progress.
type Options struct {
	providers.Sources
	LookupID string                  // names the fetch in the log and in errors
	Progress func(transfer.Progress) // called by the goroutine that called Fetch; may be nil
}

// Fetch brings the directory root and everything below it into the store, under
// ctx, which ends with tasks. Two fetches of one root take turns. The counts of
// Info are right also beside an error.
func (f *Fetcher) Fetch(ctx context.Context, tasks providers.Tasks, root b3.Root, opt Options) (Info, error) {
	info := Info{Root: root}
	endTurn, err := f.turn(ctx, root)
	if err != nil {
		return info, err
	}
	defer endTurn()
	release, err := f.gate.Acquire(ctx)
	if err != nil {
		return info, err
	}
	defer release()
	defer f.local.Lease(root)()

	seen, err := simplelru.NewLRU[b3.Root, struct{}](seenObjects, nil)
	if err != nil {
		return info, err
	}
	t := &tree{
		f: f, tasks: tasks, root: root, from: opt.Sources, lookupID: opt.LookupID, report: opt.Progress,
		src: f.pool.Candidates(tasks, root, opt.Sources), seen: seen,
		results: make(chan result, f.cfg.Requests+f.cfg.Large), // bound: requests in flight
	}
	defer t.src.Close()
	err = t.run(ctx)
	return t.info(), err
}

// turn waits until no other fetch of the tree root runs.
func (f *Fetcher) turn(ctx context.Context, root b3.Root) (end func(), err error) {
	mine := make(chan struct{})
	for {
		f.mu.Lock()
		other := f.turns[root]
		if other == nil {
			f.turns[root] = mine
		}
		f.mu.Unlock()
		if other == nil {
			return func() {
				f.mu.Lock()
				delete(f.turns, root)
				f.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run fetches the tree. The workers it starts have ended when it returns.
func (t *tree) run(ctx context.Context) error {
	node, err := t.fetchRoot(ctx)
	switch {
	case err != nil:
		return err
	case node == nil:
		return t.fetchFile(ctx)
	}
	work, cancel := context.WithCancel(ctx)
	err = t.schedule(work, node)
	cancel()
	t.wg.Wait()
	if err != nil {
		return err
	}
	if err := t.f.local.Flush(ctx); err != nil {
		return err
	}
	if t.rootFetched {
		if err := t.storeRoot(ctx); err != nil {
			return err
		}
	}
	t.tell()
	return nil
}

// storeRoot stores the root, when everything below it is durable.
func (t *tree) storeRoot(ctx context.Context) error {
	if err := t.f.local.Put(ctx, t.root, t.rootBytes); err != nil {
		return err
	}
	return t.f.local.Flush(ctx)
}

// fetchFile fetches a root that is no directory. Its bytes are here already
// when it is small; a large one comes as any object does.
func (t *tree) fetchFile(ctx context.Context) error {
	t.file = true
	switch {
	case !t.rootFetched:
	case t.rootBytes != nil:
		if err := t.storeRoot(ctx); err != nil {
			return err
		}
	default:
		if err := t.fetchLargeRoot(ctx); err != nil {
			return err
		}
	}
	t.tell()
	return nil
}

func (t *tree) fetchLargeRoot(ctx context.Context) error {
	w, err := t.f.transfers.JoinWhole(ctx, t.tasks, t.root, t.from, t.lookupID)
	if err != nil {
		return err
	}
	defer w.Leave()
	size, err := w.Wait(t.report)
	if err != nil {
		return err
	}
	if size < 0 { // it had become local
		_, size, err := t.readLocal(ctx, t.root)
		t.found(size)
		t.skip(size)
		return err
	}
	t.found(size)
	t.objects.Add(1)
	t.bytes.Add(size)
	t.arrived(w, size)
	return nil
}

// fetchRoot gets the root, from the store or from peers, into memory. It
// returns nil when that is no directory; rootBytes is then nil too if it is
// larger than one can be.
func (t *tree) fetchRoot(ctx context.Context) (*manifest.Node, error) {
	p, size, err := t.readLocal(ctx, t.root)
	if here := err; transfer.Absent(here) {
		t.rootFetched = true
		p, err = t.askRoot(ctx)
		err = transfer.Unmended(here, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !t.rootFetched:
		t.found(size)
		t.skip(size)
	case p != nil:
		t.found(int64(len(p)))
		t.got(int64(len(p)))
	}
	t.rootBytes = p
	if node, err := manifest.Decode(p); err == nil {
		return node, nil
	}
	return nil, nil // a root is untyped: what does not decode is a file (SPEC §1)
}

// readLocal returns a local object and its size; no bytes when it is larger
// than a manifest.
func (t *tree) readLocal(ctx context.Context, root b3.Root) (p []byte, size int64, err error) {
	obj, err := t.f.local.Open(ctx, root)
	if err != nil {
		return nil, 0, err
	}
	defer obj.Close()
	if size = obj.Size(); size > manifest.MaxNode {
		return nil, size, nil
	}
	p = make([]byte, size)
	if _, err := obj.Reader().ReadAt(p, 0); err != nil {
		return nil, 0, obj.Failed(err)
	}
	return p, size, nil
}
