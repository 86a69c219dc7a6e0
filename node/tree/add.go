package tree

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"allium/gateway/api"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Store is where the objects of a tree go. What Put and PutBytes store is durable
// once Flush has returned; until the add ends nothing of it is removed.
type Store interface {
	// Find describes the objects of roots that are whole in the store, and keeps
	// them as if they came just now. The Root of the others is zero.
	Find(ctx context.Context, roots []b3.Root) ([]Object, error)
	// Fits returns why an object of that size cannot be stored, before it is read.
	Fits(size int64) error
	// Put stores what r gives, to its end.
	Put(ctx context.Context, r io.Reader) (Object, error)
	PutBytes(ctx context.Context, p []byte) (Object, error)
	Flush(ctx context.Context) error
}

// Object is an object in the store.
type Object struct {
	Root b3.Root
	Size int64 // bytes
	New  bool  // the bytes were stored, not found there whole
}

// addStats counts while an add runs; any goroutine may read it.
type addStats struct {
	files atomic.Int64 // files stored
	bytes atomic.Int64 // bytes read
}

// The pipeline of an add: one goroutine reads the tree, addWorkers store
// files, one assembles the manifests in the tree's order.
const (
	addWorkers  = 4
	addAhead    = 256      // items between the reader and the assembler
	addTogether = 128      // files with a known address that the store is asked for at once; less than addAhead
	smallFile   = 64 << 10 // files up to here are read whole: one chunk group
)

// adding is one item on its way through the pipeline.
type adding struct {
	Item
	data   []byte        // a small body that was already read
	done   chan struct{} // closed when object and err are set
	object Object
	err    error

	reused bool // the object was there: nothing was read
}

// Add stores what items yields and calls each for every tree once it is durable.
// On error the objects of an unfinished tree stay as unpinned cache: nothing
// refers to them. progress may be nil.
func Add(ctx context.Context, st Store, items Items, progress api.ProgressFunc, each func(context.Context, api.Added) error) error {
	return add(ctx, st, items, nil, progress, each)
}

// add is Add of items in any order when it has a sorter.
func add(ctx context.Context, st Store, items Items, sorter *sorter, progress api.ProgressFunc, each func(context.Context, api.Added) error) error {
	workers := min(addWorkers, 2*runtime.GOMAXPROCS(0))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers + 2)
	p := &addPipeline{
		st: st, each: each, sorter: sorter,
		ordered: make(chan *adding, addAhead), // bound: addAhead items of at most smallFile bytes each
		jobs:    make(chan []*adding),
	}
	if progress != nil {
		items = reporting(items, &p.stats, progress)
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

// reporting tells progress how far an add is whenever it asks for an item.
func reporting(items Items, stats *addStats, progress api.ProgressFunc) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			progress(api.Progress{Bytes: stats.bytes.Load(), Objects: stats.files.Load(), Path: it.Path})
			if !yield(it, err) {
				return
			}
		}
	}
}

type addPipeline struct {
	st      Store
	stats   addStats
	each    func(context.Context, api.Added) error
	sorter  *sorter        // nil where the items come in the tree's order
	ordered chan *adding   // every item, in the tree's order
	jobs    chan []*adding // the files among them: one, or several whose address is known
}

// read walks the tree. It hands a file to the workers at once, or with others whose
// address is known.
func (p *addPipeline) read(ctx context.Context, items Items) error {
	defer close(p.ordered)
	defer close(p.jobs)
	var known []*adding
	submit := func(job []*adding) error {
		if len(job) == 0 {
			return nil
		}
		select {
		case p.jobs <- job:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for it, err := range items {
		if err != nil {
			return err
		}
		a := &adding{Item: it, done: make(chan struct{})}
		select {
		case p.ordered <- a:
		default: // full: the assembler may wait for what is known
			if err := submit(known); err != nil {
				return err
			}
			known = nil
			select {
			case p.ordered <- a:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if it.Kind != manifest.File {
			close(a.done)
			continue
		}
		if !it.Root.IsZero() {
			if known = append(known, a); len(known) < addTogether {
				continue
			}
			if err := submit(known); err != nil {
				return err
			}
			known = nil
			continue
		}
		if it.Body != nil {
			if inline, err := p.body(ctx, a); err != nil {
				return fmt.Errorf("%s: %w", it.Path, err)
			} else if inline {
				continue
			}
		}
		if err := submit([]*adding{a}); err != nil {
			return err
		}
	}
	return submit(known)
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
	if a.err = p.st.Fits(a.Size); a.err != nil {
		return true, a.err
	}
	a.object, a.err = p.stream(ctx, a.Body)
	return true, a.err
}

// store is a worker: it stores files until there are no more.
func (p *addPipeline) store(ctx context.Context) error {
	for job := range p.jobs {
		if err := p.find(ctx, job); err != nil {
			return err
		}
		for _, a := range job {
			if !a.reused {
				a.object, a.err = p.file(ctx, a)
			}
			close(a.done)
			if a.err != nil {
				return fmt.Errorf("%s: %w", a.Path, a.err)
			}
		}
	}
	return nil
}

// find asks the store for the files of job whose address is known.
func (p *addPipeline) find(ctx context.Context, job []*adding) error {
	if job[0].Root.IsZero() {
		return nil
	}
	roots := make([]b3.Root, len(job))
	for i, a := range job {
		roots[i] = a.Root
	}
	found, err := p.st.Find(ctx, roots)
	if err != nil {
		return fmt.Errorf("%s: %w", job[0].Path, err)
	}
	for i, a := range job {
		a.object, a.reused = found[i], !found[i].Root.IsZero()
	}
	return nil
}

func (p *addPipeline) file(ctx context.Context, a *adding) (Object, error) {
	if !a.Root.IsZero() && a.Open == nil {
		return Object{}, &status.Error{
			Outcome: status.Conflict, Detail: missingReference,
			Message: fmt.Sprintf("the store has no whole copy of %s; send the file itself (`allium add --rehash`)", a.Root),
		}
	}
	if a.Open == nil {
		p.stats.bytes.Add(int64(len(a.data)))
		info, err := p.st.PutBytes(ctx, a.data)
		a.data = nil
		return info, err
	}
	f, err := a.Open()
	if err != nil {
		return Object{}, err
	}
	defer f.Close()
	if a.Item.file.size > smallFile {
		if err := p.st.Fits(a.Item.file.size); err != nil {
			return Object{}, err
		}
	}
	info, err := p.stream(ctx, f)
	if l, ok := f.(learner); ok && err == nil {
		l.learn(info.Root)
	}
	return info, err
}

// missingReference marks the error of an item that names an object by its
// address which the store has not got.
const missingReference = "missing_reference"

func (p *addPipeline) stream(ctx context.Context, r io.Reader) (Object, error) {
	return p.st.Put(ctx, countingReader{r, &p.stats.bytes})
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
// from the leaves up, of items in any order when all are there.
func (p *addPipeline) assemble(ctx context.Context) error {
	t := &builder{pipeline: p}
	take := t.add
	if p.sorter != nil {
		take = p.sorter.add
	}
	for a := range p.ordered {
		select {
		case <-a.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if a.err != nil {
			return fmt.Errorf("%s: %w", a.Path, a.err)
		}
		if err := take(ctx, a); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // ordered is closed early when reading failed
		return err
	}
	if p.sorter != nil {
		if err := p.sorter.each(ctx, t.add); err != nil {
			return err
		}
	}
	return t.finish(ctx)
}
