package node

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"allium/gateway/client"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// Item is one file, directory or link to add.
type Item struct {
	// Path is slash-separated. Its first element is the name of what is added:
	// "src", "src/go.mod" and "src/sort/sort.go" make one tree.
	Path       string
	Kind       manifest.EntryKind
	Executable bool
	Target     string // of a link

	// Root is the address of a file's content where it is known. The store is
	// asked for it, and what the next paragraph says is read only when it has
	// not got it; without that it is conflict.
	Root b3.Root

	// One of the two gives a file's bytes. Body must be consumed before the
	// next item is asked for (a tar stream); Open may be called later and from
	// another goroutine (a file system).
	Body io.Reader
	Size int64 // of Body
	Open func() (io.ReadCloser, error)
	stat fs.FileInfo // of a file on disk, when it was listed
}

// Items yields trees one after the other, each depth first: a directory before
// its entries, the entries of one directory in bytewise order of their names.
// Anything else is refused by the manifest builder, with the entry named.
type Items = iter.Seq2[Item, error]

// AddStats counts while an add runs; any goroutine may read it.
type AddStats struct {
	Files atomic.Int64 // files stored
	Bytes atomic.Int64 // bytes read
	New   atomic.Int64 // bytes that the store did not have
}

// The pipeline of an add: one goroutine reads the tree, addWorkers store
// files, one assembles the manifests in the tree's order.
const (
	addWorkers = 4
	addAhead   = 256      // items between the reader and the assembler
	smallFile  = 64 << 10 // files up to here are read whole: one chunk group
)

// adding is one item on its way through the pipeline.
type adding struct {
	Item
	data []byte        // a small body that was already read
	done chan struct{} // closed when info and err are set
	info store.Info
	err  error

	reused bool // the object was there: nothing was read
}

// addTrees stores what items yields and calls each for every tree once it is
// durable. On error the objects of an unfinished tree stay as unpinned cache:
// nothing refers to them.
//
// What is stored or found is held until it returns, so that each can pin it.
// charge counts what is new; it may be nil.
func addTrees(ctx context.Context, st *store.Store, charge *store.Charge, items Items, stats *AddStats, each func(context.Context, client.Added) error) error {
	defer st.Hold()()
	workers := min(addWorkers, 2*runtime.GOMAXPROCS(0))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers + 2)
	p := &addPipeline{
		st: st, put: store.PutOptions{Deferred: true, Charge: charge}, stats: stats, each: each,
		ordered: make(chan *adding, addAhead), // bound: addAhead items of at most smallFile bytes each
		jobs:    make(chan *adding),
	}
	g.Go(func() error { return supervise.Guard(func() error { return p.read(gctx, items) }) })
	for range workers {
		g.Go(func() error { return supervise.Guard(func() error { return p.store(gctx) }) })
	}
	g.Go(func() error { return supervise.Guard(func() error { return p.assemble(gctx) }) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	return nil
}

type addPipeline struct {
	st      *store.Store
	put     store.PutOptions
	stats   *AddStats
	each    func(context.Context, client.Added) error
	ordered chan *adding // every item, in the tree's order
	jobs    chan *adding // the files among them
}

// read walks the tree.
func (p *addPipeline) read(ctx context.Context, items Items) error {
	defer close(p.ordered)
	defer close(p.jobs)
	for it, err := range items {
		if err != nil {
			return err
		}
		a := &adding{Item: it, done: make(chan struct{})}
		select {
		case p.ordered <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
		if it.Kind != manifest.File {
			close(a.done)
			continue
		}
		if it.Body != nil && it.Root.IsZero() {
			if inline, err := p.body(ctx, a); err != nil {
				return fmt.Errorf("%s: %w", it.Path, err)
			} else if inline {
				continue
			}
		}
		select {
		case p.jobs <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// body reads a body that has to be consumed now. A small one becomes a job, a
// large one is stored right here (inline).
func (p *addPipeline) body(ctx context.Context, a *adding) (inline bool, err error) {
	if a.Size <= smallFile {
		a.data = make([]byte, a.Size)
		_, err := io.ReadFull(a.Body, a.data)
		return false, err
	}
	defer close(a.done)
	if a.err = p.put.Charge.Fits(a.Size); a.err != nil {
		return true, a.err
	}
	a.info, a.err = p.stream(ctx, a.Body)
	return true, a.err
}

// store is a worker: it stores files until there are no more.
func (p *addPipeline) store(ctx context.Context) error {
	for a := range p.jobs {
		a.info, a.err = p.file(ctx, a)
		close(a.done)
		if a.err != nil {
			return fmt.Errorf("%s: %w", a.Path, a.err)
		}
	}
	return nil
}

func (p *addPipeline) file(ctx context.Context, a *adding) (store.Info, error) {
	if !a.Root.IsZero() {
		if info, err := p.known(ctx, a); err != nil || a.reused {
			return info, err
		}
	}
	if a.Open == nil {
		p.stats.Bytes.Add(int64(len(a.data)))
		info, err := p.st.PutBytes(ctx, a.data, p.put)
		a.data = nil
		return info, err
	}
	f, err := a.Open()
	if err != nil {
		return store.Info{}, err
	}
	defer f.Close()
	if a.stat != nil && a.stat.Size() > smallFile {
		if err := p.put.Charge.Fits(a.stat.Size()); err != nil {
			return store.Info{}, err
		}
	}
	info, err := p.stream(ctx, f)
	if l, ok := f.(learner); ok && err == nil {
		l.learn(info.Root)
	}
	return info, err
}

// known finds the object that a is said to be. An item without other bytes is
// conflict where the store has not got it.
func (p *addPipeline) known(ctx context.Context, a *adding) (store.Info, error) {
	has, err := p.st.Keep(ctx, []b3.Root{a.Root})
	if err != nil {
		return store.Info{}, err
	}
	info, err := p.st.Stat(ctx, a.Root)
	out := status.Of(err)
	switch {
	case err == nil && has[0] == store.Complete:
		a.reused = true
		return info, nil
	case err != nil && out != status.NotFound && out != status.Corrupt:
		return store.Info{}, err
	case a.Open == nil:
		return store.Info{}, &status.Error{
			Outcome: status.Conflict, Detail: missingReference,
			Message: fmt.Sprintf("the store has no whole copy of %s; send the file itself (`allium add --rehash`)", a.Root),
		}
	}
	return store.Info{}, nil
}

// missingReference marks the error of an item that names an object by its
// address which the store has not got.
const missingReference = "missing_reference"

func (p *addPipeline) stream(ctx context.Context, r io.Reader) (store.Info, error) {
	return p.st.Put(ctx, countingReader{r, &p.stats.Bytes}, p.put)
}

// countingReader counts what is read through it.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// assemble takes the items in order, waits for each and builds the manifests
// from the leaves up.
func (p *addPipeline) assemble(ctx context.Context) error {
	t := &treeBuilder{pipeline: p}
	for a := range p.ordered {
		select {
		case <-a.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if a.err != nil {
			return fmt.Errorf("%s: %w", a.Path, a.err)
		}
		if err := t.add(ctx, a); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // ordered is closed early when reading failed
		return err
	}
	return t.finish(ctx)
}
