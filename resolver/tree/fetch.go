package tree

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// Info is the result of Fetch.
type Info struct {
	Root         b3.Root
	Directory    bool  // false when the root is a file
	Objects      int64 // files, directories and parts of directories, with the root
	Bytes        int64 // size of these objects
	Fetched      int64 // objects received from peers
	FetchedBytes int64
	Resumed      int64 // bytes of these objects that an earlier fetch had stored
	Skipped      int64 // objects that were local, or occurred before in the tree
	Peers        int   // number of peers that sent something
	Duration     time.Duration
	LookupID     status.LookupID
}

// Config bounds the fetching of trees. The resolver's configuration documents
// the fields.
type Config struct {
	Trees    int64 // most fetches at the same time; as many may wait, more are refused with busy
	Requests int   // most requests in flight for one tree
	Large    int   // most large files in flight for one tree, on top of Requests
	Tries    int   // how often all providers of a batch are tried

	HedgeAfter time.Duration // a source that sends nothing for so long is joined by the next
}

// Local is the node's own store, as trees need it.
type Local interface {
	// Open returns a whole object, or status.NotFound.
	Open(ctx context.Context, root b3.Root) (b3.Object, error)
	// Has reports, for each of at most 1,024 roots, whether the whole object is
	// stored.
	Has(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Put stores the object root, whose bytes are p, and does not keep p. It is
	// durable, and visible, after the next Flush at the latest.
	Put(ctx context.Context, root b3.Root, p []byte) error
	// Flush makes everything that was put or committed before it durable.
	Flush(ctx context.Context) error
	// Lease keeps objects, stored or not yet stored, from being deleted until
	// release is called.
	Lease(roots ...b3.Root) (release func())
}

// Deps holds the dependencies of a [Fetcher]. Limits may be nil.
type Deps struct {
	env.Env

	Local     Local
	Pool      *providers.Pool
	Transfers *transfer.Set
	Filter    policy.Filter      // of the objects below the root
	Received  prometheus.Counter // bytes of objects received in batches
}

// Fetcher fetches trees. Its methods are safe for concurrent use.
type Fetcher struct {
	cfg       atomic.Pointer[Config]
	local     Local
	pool      *providers.Pool
	transfers *transfer.Set
	filter    policy.Filter
	received  prometheus.Counter
	gate      *limits.Gate

	mu      sync.Mutex                // lock: leaf
	running map[b3.Root]chan struct{} // closed when the fetch of the root ends
}

// New returns a fetcher. It starts nothing.
func New(cfg Config, d Deps) *Fetcher {
	f := &Fetcher{
		local: d.Local, pool: d.Pool, transfers: d.Transfers, filter: d.Filter, received: d.Received,
		gate: d.Limits.NewGate(limits.Spec{
			Name:   "resolver.trees",
			Path:   "gateway, commands → directory fetches",
			Policy: "as many wait, the rest are refused with busy",
		}, cfg.Trees, cfg.Trees),
		running: map[b3.Root]chan struct{}{},
	}
	f.cfg.Store(&cfg)
	return f
}

// Reconfigure changes HedgeAfter.
func (f *Fetcher) Reconfigure(cfg Config) { f.cfg.Store(&cfg) }

// Options name the peers that may have a tree, and a function that is told of the
// progress.
type Options struct {
	providers.Sources
	Lookup   *trace.Lookup           // records the fetch
	Progress func(transfer.Progress) // called by the goroutine that called Fetch; may be nil
}

// Fetch brings the directory root and everything below it into the store. ctx must
// end when tasks end. A second fetch of the same root waits for the first. The
// counts of Info are right also when Fetch fails.
func (f *Fetcher) Fetch(ctx context.Context, tasks providers.Tasks, root b3.Root, opt Options) (Info, error) {
	info := Info{Root: root}
	unlock, err := f.lock(ctx, root)
	if err != nil {
		return info, err
	}
	defer unlock()
	begun := time.Now()
	release, err := f.gate.Acquire(ctx)
	if err != nil {
		opt.Lookup.Failed(trace.Permit, time.Since(begun), err)
		return info, err
	}
	if took := time.Since(begun); took >= leastWait {
		opt.Lookup.Step(trace.Step{Source: trace.Permit, Verdict: trace.Granted, Took: took})
	}
	defer release()
	defer f.local.Lease(root)()

	t := &tree{
		f: f, tasks: tasks, root: root, from: opt.Sources, trace: opt.Lookup, report: opt.Progress,
		src: f.pool.Candidates(tasks, root, opt.Sources).Record(opt.Lookup),
	}
	defer t.src.Close()
	err = t.run(ctx)
	t.record()
	return t.info(), err
}

// leastWait is the shortest wait for a place in the gate that the record of a fetch
// mentions.
const leastWait = time.Millisecond

// lock waits until no other fetch of the tree root runs.
func (f *Fetcher) lock(ctx context.Context, root b3.Root) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		f.mu.Lock()
		other := f.running[root]
		if other == nil {
			f.running[root] = mine
		}
		f.mu.Unlock()
		if other == nil {
			return func() {
				f.mu.Lock()
				delete(f.running, root)
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

// tree is one Fetch. The goroutine that called it alone writes the fields; its workers read them while they run.
type tree struct {
	f      *Fetcher
	tasks  providers.Tasks
	root   b3.Root
	from   providers.Sources
	src    *providers.Candidates
	trace  *trace.Lookup
	report func(transfer.Progress)

	file        bool   // the root is a file
	rootBytes   []byte // nil when the root is too large for a directory
	rootFetched bool

	count count
	peers senders
}

// run fetches the tree. The workers it starts have ended when it returns.
func (t *tree) run(ctx context.Context) error {
	refs, err := t.fetchRoot(ctx)
	switch {
	case err != nil:
		return err
	case refs == nil:
		return t.fetchFile(ctx)
	}
	if err := newWalk(t, refs).run(ctx); err != nil {
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
	t.reportProgress()
	return nil
}

// storeRoot stores the root. Everything below it must be durable.
func (t *tree) storeRoot(ctx context.Context) error {
	if err := t.f.local.Put(ctx, t.root, t.rootBytes); err != nil {
		return err
	}
	return t.f.local.Flush(ctx)
}

// fetchFile fetches a root that is a file. A small one is in rootBytes already; a
// large one is fetched by a transfer.
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
	t.reportProgress()
	return nil
}

func (t *tree) fetchLargeRoot(ctx context.Context) error {
	w, err := t.f.transfers.JoinWhole(ctx, t.tasks, t.root, t.from, t.trace)
	if err != nil {
		return err
	}
	defer w.Leave()
	size, err := w.Wait(t.report)
	if err != nil {
		return err
	}
	if size < 0 { // the object became local meanwhile
		_, size, err := t.readLocal(ctx, t.root)
		t.count.found(size)
		t.count.skip(size)
		return err
	}
	t.count.found(size)
	t.count.here(size)
	t.arrived(w, size)
	return nil
}

// fetchRoot reads the root from the store or from peers into memory. It returns the
// objects that the root directory refers to, and nil when the root is a file. rootBytes
// is then nil if the file is larger than a manifest can be.
func (t *tree) fetchRoot(ctx context.Context) ([]manifest.Ref, error) {
	p, size, err := t.readLocal(ctx, t.root)
	t.noteLocal(err)
	if here := err; transfer.NeedsFetch(here) {
		t.rootFetched = true
		p, err = t.askRoot(ctx)
		err = transfer.Unmended(here, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !t.rootFetched:
		t.count.found(size)
		t.count.skip(size)
	case p != nil:
		t.count.found(int64(len(p)))
		t.count.got(ctx, int64(len(p)))
	}
	t.rootBytes = p
	if refs, err := manifest.Refs(p); err == nil {
		return refs, nil
	}
	return nil, nil // a root has no type: an object that does not decode is a file (SPEC §1)
}

// readLocal returns a local object and its size. p is nil when the object is larger
// than a manifest can be.
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
