package shards

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/internal/cores"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

// Encode implements durability.Coder. Parity shards stay in the store as cached content: one that is evicted before it
// was sent is made again.
func (c *Coder) Encode(ctx context.Context, root b3.Root, t meta.Target) (b3.Root, error) {
	release, err := c.streams.Acquire(ctx)
	if err != nil {
		return b3.Root{}, err
	}
	defer release()
	if err := c.deps.Filter.Object(root); err != nil {
		return b3.Root{}, err
	}
	obj, err := c.deps.Store.Inspect(ctx, root)
	if err != nil {
		return b3.Root{}, err
	}
	defer obj.Close()
	m := &erasure.Manifest{
		Layout: erasure.Layout{Size: obj.Size(), Data: t.Data, Parity: t.Parity}, Object: root,
	}
	code, err := erasure.NewCode(m.Layout)
	if err != nil {
		return b3.Root{}, err
	}
	for i := range m.Stripes() {
		shards, err := c.encodeStripe(ctx, code, m, i, obj)
		if err != nil {
			return b3.Root{}, obj.Failed(err)
		}
		m.Shards = append(m.Shards, shards)
	}
	if m.Outboard, err = c.storeOutboard(ctx, obj); err != nil {
		return b3.Root{}, err
	}
	p, err := m.Encode()
	if err != nil {
		return b3.Root{}, err
	}
	info, err := c.deps.Store.PutBytes(ctx, p, store.PutOptions{})
	if err != nil {
		return b3.Root{}, err
	}
	c.m.encoded.Add(float64(m.Size))
	label := meta.OriginLabel(c.deps.Self.String())
	return info.Root, c.deps.Store.Pin(ctx, info.Root, store.PinOptions{Label: label, Target: t})
}

// storeOutboard stores the outboard of an object as an object, and pins it.
func (c *Coder) storeOutboard(ctx context.Context, obj *store.Object) (b3.Root, error) {
	n := b3.Groups(obj.Size()) - 1
	if n == 0 {
		return b3.Root{}, nil
	}
	info, err := c.deps.Store.Put(ctx, &parents{src: obj.Source(), n: n}, store.PutOptions{})
	if err != nil {
		return b3.Root{}, err
	}
	return info.Root, c.deps.Store.Pin(ctx, info.Root, store.PinOptions{Label: meta.ClusterLabel})
}

// parents reads the outboard of an object that was just read, and so proved, from its start to its end.
type parents struct {
	src     b3.Source
	next, n int64
	buf     [b3.ParentSize]byte
	rest    []byte
}

// Read implements io.Reader.
func (r *parents) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.next == r.n {
				return n, io.EOF
			}
			if _, err := r.src.ReadParents(r.next, r.buf[:]); err != nil {
				return n, err
			}
			r.next++
			r.rest = r.buf[:]
		}
		k := copy(p[n:], r.rest)
		r.rest = r.rest[k:]
		n += k
	}
	return n, nil
}

// encodeStripe computes the addresses of a stripe's shards, and stores its parity.
func (c *Coder) encodeStripe(
	ctx context.Context, code *erasure.Code, m *erasure.Manifest, stripe int, obj *store.Object,
) ([]b3.Root, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.Parity)
	shards := make([]b3.Root, m.Layout.Shards())
	s := m.Stripe(stripe)
	to, err := c.startParity(ctx, group, m, s.Length(0), shards[m.Data:])
	hashers := make([]b3.GroupHasher, m.Data)
	parts := newParts(m.Layout)
	for off := int64(0); err == nil && off < s.Length(0); off += window {
		n := min(window, s.Length(0)-off)
		if err = c.encodePart(ctx, code, m, s, obj, parts, hashers, b3.Range{Start: off, End: off + n}); err != nil {
			break
		}
		for i, w := range to {
			if _, err = w.Write(parts[m.Data+i]); err != nil {
				break
			}
		}
	}
	for _, w := range to {
		_ = w.CloseWithError(err) // a nil error is the end of the shard; it returns none
	}
	failed := group.Wait()
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, err
	}
	for i := range hashers {
		if s.Length(i) > 0 {
			shards[i] = hashers[i].Sum()
		}
	}
	return shards, nil
}

// newParts returns buffers of one window for each shard.
func newParts(l erasure.Layout) [][]byte {
	parts := make([][]byte, l.Shards())
	for i := range parts {
		parts[i] = make([]byte, window)
	}
	return parts
}

// encodePart reads a range of each data shard of an object, hashes it, and computes the parity.
func (c *Coder) encodePart(
	ctx context.Context, code *erasure.Code, m *erasure.Manifest, s erasure.Stripe, obj *store.Object, parts [][]byte,
	hashers []b3.GroupHasher, r b3.Range,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(2) // one reads while another one hashes
	for i := range parts {
		parts[i] = parts[i][:r.End-r.Start]
		if i >= m.Data {
			continue
		}
		group.Go(func() error {
			n := min(r.End, s.Length(i)) - r.Start
			if n = max(n, 0); n > 0 {
				if k, err := obj.Reader().ReadAt(parts[i][:n], s.Range(i).Start+r.Start); int64(k) < n {
					return err
				}
			}
			clear(parts[i][n:])
			for p := parts[i][:n]; len(p) > 0; {
				k := min(len(p), b3.GroupSize)
				c.deps.Cores.Enter(cores.Background)
				hashers[i].Add(p[:k])
				c.deps.Cores.Leave(cores.Background)
				p = p[k:]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.deps.Cores.Acquire(ctx, cores.Background); err != nil {
		return err
	}
	defer c.deps.Cores.Leave(cores.Background)
	return code.Encode(parts)
}

// rebuild computes the wanted parts of a stripe, which somebody waits for.
func rebuild(ctx context.Context, pool *cores.Pool, code *erasure.Code, parts [][]byte, wanted []bool) error {
	if err := pool.Acquire(ctx, cores.Foreground); err != nil {
		return err
	}
	defer pool.Leave(cores.Foreground)
	return code.Rebuild(parts, wanted)
}

// startParity begins to store the parity of a stripe. The puts run in group, and set roots when they end. The puts of
// one stripe at a time wait to be admitted, so that two encodings do not each hold the places that the other one needs.
func (c *Coder) startParity(
	ctx context.Context, group *errgroup.Group, m *erasure.Manifest, size int64, roots []b3.Root,
) (to []*io.PipeWriter, err error) {
	select {
	case c.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.starts }()
	timeout := time.NewTimer(startTime)
	defer timeout.Stop()
	for i := range m.Parity {
		r, w := io.Pipe()
		to = append(to, w)
		begun := make(chan struct{})
		group.Go(func() error {
			info, err := c.deps.Store.Put(ctx, &begins{Reader: r, begun: begun}, store.PutOptions{Size: size})
			roots[i] = info.Root
			_ = r.CloseWithError(err)
			return err
		})
		select {
		case <-begun:
		case <-ctx.Done():
			return to, ctx.Err()
		case <-timeout.C:
			return to, status.Errorf(status.Busy, "the store takes no more puts; store.puts must be above %d", m.Parity)
		}
	}
	return to, nil
}

// begins closes begun with the first read.
type begins struct {
	io.Reader
	once  sync.Once
	begun chan struct{}
}

// Read implements io.Reader.
func (b *begins) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.begun) })
	return b.Reader.Read(p)
}

// alias opens a data shard as a range of the whole object, which is stored here. The shard's outboard is
// computed, and kept in RAM: 1/1024 of its bytes.
func (c *Coder) alias(ctx context.Context, m *erasure.Manifest, stripe, shard int) (b3.Object, error) {
	obj, err := c.deps.Store.Inspect(ctx, m.Object)
	if err != nil {
		return nil, err
	}
	root, size := m.Shard(stripe, shard)
	r := m.Stripe(stripe).Range(shard)
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	section := obj.Reader().Section(r.Start, r.End)
	_, err = h.ReadFrom(section)
	_ = section.Close()       // it releases buffers, and its error is that of a read
	got, _, failed := h.Sum() // which releases the hasher, also after an error
	if err == nil {
		err = failed
	}
	if err == nil && got != root {
		err = status.Errorf(status.BadRequest, "the coding manifest of %s names another shard %d than it has", m.Object,
			shard)
	}
	if err != nil {
		err = obj.Failed(err)
		obj.Close()
		return nil, err
	}
	src := b3.FileSource(io.NewSectionReader(obj.Reader(), r.Start, size), bytes.NewReader(outboard.Bytes()), size)
	return &aliased{b3.NewReader(root, size, src), obj}, nil
}

// aliased is a shard that is a range of an object.
type aliased struct {
	reader *b3.Reader
	obj    b3.Object
}

func (a *aliased) Size() int64            { return a.reader.Size() }
func (a *aliased) Reader() *b3.Reader     { return a.reader }
func (a *aliased) Failed(err error) error { return a.obj.Failed(err) }
func (a *aliased) Close() error           { return a.obj.Close() }
