package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"allium/gateway/api"
	"allium/internal/guard"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Store stores the objects of an add. It removes none of them before the add ends.
type Store interface {
	// Find describes the objects of roots that the store holds complete, and
	// protects them like new ones. The Root of every other object is zero.
	Find(ctx context.Context, roots []b3.Root) ([]Object, error)
	// Put stores everything that r yields. size is the expected number of bytes, 0 if unknown: what has no space
	// fails before the first byte is read.
	Put(ctx context.Context, r io.Reader, size int64) (Object, error)
	// PutBytes stores p.
	PutBytes(ctx context.Context, p []byte) (Object, error)
	// Flush makes durable what Put and PutBytes have stored.
	Flush(ctx context.Context) error
}

// Object is an object in the store.
type Object struct {
	Root b3.Root
	Size int64 // bytes
	New  bool  // the store did not hold it before
}

// addStats counts the work of a running add. Any goroutine may use it.
type addStats struct {
	files  atomic.Int64 // files stored
	bytes  atomic.Int64 // bytes read, and those of files that the store held
	reused atomic.Int64 // bytes of files that the store held
	report api.ProgressFunc
	count  func(n int64) error // see api.AddOptions; nil: any number of bytes
}

// add counts n bytes of files. It returns the error of count.
func (s *addStats) add(n int64) error {
	s.bytes.Add(n)
	if s.count == nil {
		return nil
	}
	return s.count(n)
}

// tell reports the progress. path is what is read next, or empty.
func (s *addStats) tell(path string) {
	if s.report != nil {
		s.report(api.Progress{
			Bytes: s.bytes.Load(), Resumed: s.reused.Load(), Objects: s.files.Load(), Path: path,
		})
	}
}

// The pipeline of an add: one goroutine reads the tree, addWorkers store
// files, one assembles the manifests in the tree's order.
const (
	addWorkers = 4
	maxOrdered = 4096     // items between the reader and the assembler; when full, the reader waits
	findBatch  = 1024     // files with a known address in one look-up; less than maxOrdered
	smallFile  = 64 << 10 // files up to here are read whole: one chunk group
)

// pipelineItem is an item that an add has read and not yet put into a manifest.
type pipelineItem struct {
	Item
	data   []byte        // the bytes of a small Body, until they are stored
	done   chan struct{} // closed when object and err are set
	object Object
	err    error

	reused  bool // the store held the object, so the file was not read
	leftOut bool // the file changed while it was read, and is not in the tree
}

// Reports are the functions that an add calls while it runs. Each may be nil.
type Reports struct {
	Progress api.ProgressFunc
	Roots    func([]b3.Root)     // see api.AddOptions
	Count    func(n int64) error // see api.AddOptions
}

// Add stores the items and calls each for every tree once the tree is durable.
// On error the objects of an unfinished tree stay as unpinned cache: nothing
// refers to them.
func Add(
	ctx context.Context, st Store, items Items, reports Reports, each func(context.Context, api.Added) error,
) error {
	return add(ctx, st, items, nil, reports, each)
}

// add is Add. With a sorter the items may come in any order.
func add(
	ctx context.Context, st Store, items Items, sorter *sorter, reports Reports,
	each func(context.Context, api.Added) error,
) error {
	workers := min(addWorkers, 2*runtime.GOMAXPROCS(0))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers + 2)
	p := &addPipeline{
		st: st, each: each, sorter: sorter, roots: rootBatch{report: reports.Roots},
		ordered: make(chan *pipelineItem, maxOrdered), // bound: maxOrdered; workers alone hold bytes of files
		jobs:    make(chan []*pipelineItem),
	}
	p.stats.report, p.stats.count = reports.Progress, reports.Count
	g.Go(func() error { return guard.Run(func() error { return p.read(gctx, items) }) })
	for range workers {
		g.Go(func() error { return guard.Run(func() error { return p.store(gctx) }) })
	}
	g.Go(func() error { return guard.Run(func() error { return p.assemble(gctx) }) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	return nil
}

// addPipeline is the state that the goroutines of one add share.
type addPipeline struct {
	st      Store
	stats   addStats
	each    func(context.Context, api.Added) error
	roots   rootBatch
	sorter  *sorter              // nil: the items come in the order of Items
	ordered chan *pipelineItem   // every item, in the order in which it was read
	jobs    chan []*pipelineItem // files to store: one, or several with known addresses
}

// read takes the items. It hands a file to the workers at once, or together with
// others when its address is known.
func (p *addPipeline) read(ctx context.Context, items Items) error {
	defer close(p.ordered)
	defer close(p.jobs)
	var known []*pipelineItem
	submit := func(job []*pipelineItem) error {
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
		p.stats.tell(it.Path)
		a := &pipelineItem{Item: it, done: make(chan struct{})}
		select {
		case p.ordered <- a:
		default: // full: the assembler may wait for a file in known
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
			if known = append(known, a); len(known) < findBatch {
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
		if err := submit([]*pipelineItem{a}); err != nil {
			return err
		}
	}
	return submit(known)
}

// body consumes the Body of an item. It reads a small one into memory for a worker;
// it stores a large one itself and returns inline.
func (p *addPipeline) body(ctx context.Context, a *pipelineItem) (inline bool, err error) {
	if a.Size >= 0 && a.Size <= smallFile {
		a.data = make([]byte, a.Size)
		if _, err := io.ReadFull(a.Body, a.data); err != nil {
			return false, err
		}
		return false, checkEnd(a.Body)
	}
	defer close(a.done)
	a.object, a.err = p.stream(ctx, a.Body, max(0, a.Size))
	return true, a.err
}

// checkEnd returns an error unless r is at its end. A zip verifies the checksum of a file there.
func checkEnd(r io.Reader) error {
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return status.Errorf(status.BadRequest, "the file has more bytes than the archive says. Make the archive again")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// store runs a worker: it stores files until there are no more.
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

// find looks up the files of a job with known addresses, and marks those that the
// store holds as reused.
func (p *addPipeline) find(ctx context.Context, job []*pipelineItem) error {
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
		if err := p.stats.add(found[i].Size); err != nil {
			return fmt.Errorf("%s: %w", a.Path, err)
		}
		p.stats.reused.Add(found[i].Size)
	}
	return nil
}

// file stores one file that the store does not hold.
func (p *addPipeline) file(ctx context.Context, a *pipelineItem) (Object, error) {
	if !a.Root.IsZero() && a.Open == nil {
		return Object{}, &status.Error{
			Outcome: status.Conflict, Detail: missingReference,
			Message: fmt.Sprintf("the store has no whole copy of %s; send the file itself (`allium add --rehash`)",
				a.Root),
		}
	}
	if a.Open == nil {
		if err := p.stats.add(int64(len(a.data))); err != nil {
			return Object{}, err
		}
		info, err := p.st.PutBytes(ctx, a.data)
		a.data = nil
		return info, err
	}
	o, err := p.open(ctx, a)
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		if o, err = p.open(ctx, a); errors.As(err, &changed) && changed.leaveOut() {
			a.leftOut = true
			return Object{}, nil
		}
	}
	return o, err
}

// open stores the file that an item opens. It returns a *changedError for a file that has another size
// than it told.
func (p *addPipeline) open(ctx context.Context, a *pipelineItem) (Object, error) {
	f, err := a.Open()
	if err != nil {
		return Object{}, err
	}
	defer f.Close()
	told, err := toldSize(f)
	if err != nil {
		return Object{}, err
	}
	var size int64
	if told > smallFile {
		size = told
	}
	info, err := p.stream(ctx, f, size)
	if err == nil && told >= 0 && info.Size != told {
		return Object{}, a.changed()
	}
	if c, ok := f.(cacheable); ok && err == nil {
		if record := c.recorder(); record != nil {
			record(info.Root)
		}
	}
	return info, err
}

// missingReference is the detail of the error for an item that gives an address
// instead of bytes, when the store does not hold that object.
const missingReference = "missing_reference"

// stream stores everything that r yields and counts its bytes. size is how many are expected; 0: that is unknown.
func (p *addPipeline) stream(ctx context.Context, r io.Reader, size int64) (Object, error) {
	return p.st.Put(ctx, countingReader{r, &p.stats}, size)
}

// countingReader counts and reports the bytes read through it.
type countingReader struct {
	r     io.Reader
	stats *addStats
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err := c.stats.add(int64(n)); err != nil {
		return 0, err
	}
	c.stats.tell("")
	return n, err
}

// assemble takes the items in order, waits until each is stored, and builds the
// manifests from the leaves up. With a sorter it builds them after the last item.
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
		if a.leftOut {
			continue
		}
		p.roots.add(a)
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
