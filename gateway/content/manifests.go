package content

import (
	"context"
	"errors"
	"net/http"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// manifestPart is the maximum size in bytes of the parts in which a manifest is read.
const manifestPart = b3.GroupSize

// maxRemembered bounds the fetched manifests that a request remembers.
const maxRemembered = 256

// manifestReader reads the manifests in the tree below top, for one request. Those on the way to a name are tables of
// the cache of directories. It reads others in parts and remembers the last part, because one answer reads a small
// directory several times. A manifest that had to be fetched twice, because the store has no space for it, is held
// whole if gateway.page_bytes has room.
type manifestReader struct {
	g   *Handlers
	b   *body
	r   *http.Request
	top b3.Root

	last     manifestBuffer
	lastRoot b3.Root
	lastSize int64

	fetched map[b3.Root]bool
	held    map[b3.Root][]byte
	taken   int64 // bytes of held
}

// nodes returns functions that read with the context of the body, which ends when the content stalls.
func (m *manifestReader) nodes() manifest.Nodes { return manifest.Nodes{Parts: m.part, Table: m.table} }

// open opens a manifest. It returns ErrNotManifest for an object that is too large. The caller closes c.
func (m *manifestReader) open(root b3.Root) (c Content, fetched bool, err error) {
	o := OpenOptions{Via: m.top, Whole: true}
	if root == m.top {
		o = OpenOptions{} // top may be a large file
	}
	if c, err = m.g.open(m.b, m.r, root, o); err != nil {
		return nil, false, err
	}
	if c.Size() > manifest.MaxNode {
		_ = c.Close() // nothing was read of it
		return nil, false, manifest.ErrNotManifest
	}
	_, fetched = c.(fetchedContent)
	return c, fetched, nil
}

// table implements the function of [manifest.Nodes]. It looks for the manifest even if its table is kept: the denylist
// may name it, the store may have lost it, and counts it as used.
func (m *manifestReader) table(_ context.Context, root b3.Root) (t *manifest.Table, err error) {
	if err := m.g.denylist.Object(root); err != nil {
		return nil, err
	}
	if t = m.g.directories.Get(root); t != nil && m.g.objects.Cached(root) {
		m.b.w.LookupID = m.g.served(root)
		return t, nil
	}
	c, fetched, err := m.open(root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if fetched {
		m.fetchedAgain(root)
	} else if t != nil {
		return t, nil
	}
	whole, full := manifestBuffer{end: c.Size()}, errors.New("the cache of directories is full")
	whole.reserve = func(size int64) error {
		if !m.g.directories.Reserve(root, size) {
			return full
		}
		return nil
	}
	defer func() {
		if whole.p != nil {
			m.g.directories.Done(root, t)
		}
	}()
	if err = c.Copy(m.b.ctx, &whole, 0, whole.end); errors.Is(err, full) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return manifest.NewTable(whole.p)
}

// part implements [manifest.Parts]. It returns ErrNotManifest for an object that is too large or does not begin with
// the magic.
func (m *manifestReader) part(_ context.Context, root b3.Root, at int64) ([]byte, int64, error) {
	if m.last.p != nil && root == m.lastRoot && at == m.last.start {
		return m.last.p, m.lastSize, nil
	}
	if p, ok := m.held[root]; ok {
		return p[min(at, int64(len(p))):], int64(len(p)), nil
	}
	m.last.p = nil
	c, fetched, err := m.open(root)
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	size := c.Size()
	part := manifestBuffer{start: min(at, size), end: min(at+manifestPart, size)}
	hold := fetched && m.hold(root, size)
	if hold {
		part.start, part.end = 0, size
	}
	if fetched { // all of it, so that the store has the next part
		err = c.Copy(m.b.ctx, &part, 0, size)
	} else {
		part.at = part.start
		err = c.Copy(m.b.ctx, &part, part.start, part.end)
	}
	if err != nil {
		return nil, 0, err
	}
	if hold {
		m.held[root] = part.p
		return part.p[min(at, size):], size, nil
	}
	m.last, m.lastRoot, m.lastSize = part, root, size
	return part.p, size, nil
}

// fetchedAgain remembers that a manifest was fetched, and returns whether it was before.
func (m *manifestReader) fetchedAgain(root b3.Root) bool {
	if m.fetched == nil {
		m.fetched, m.held = map[b3.Root]bool{}, map[b3.Root][]byte{}
	}
	if !m.fetched[root] && len(m.fetched) < maxRemembered {
		m.fetched[root] = true
		return false
	}
	return m.fetched[root]
}

// hold reserves memory for a manifest that is fetched again. It returns false for the first time.
func (m *manifestReader) hold(root b3.Root, size int64) bool {
	if !m.fetchedAgain(root) {
		return false
	}
	if !m.g.renderer.Take(m.b.w.From.Group, size) {
		return false
	}
	m.taken += size
	return true
}

// release gives back what is held.
func (m *manifestReader) release() {
	if m.taken > 0 {
		m.g.renderer.Give(m.b.w.From.Group, m.taken)
	}
	m.held, m.taken = nil, 0
}

// manifestBuffer collects the bytes of a part of a manifest. Its Write returns ErrNotManifest as soon as the first
// bytes of the object differ from the manifest magic.
type manifestBuffer struct {
	start, end int64 // of the part
	at         int64 // what Write gets next
	p          []byte

	reserve func(size int64) error // called before p gets memory, unless nil
}

func (b *manifestBuffer) Write(p []byte) (int, error) {
	if n := int64(len(manifest.Magic)); b.at < n {
		have := min(n-b.at, int64(len(p)))
		if string(p[:have]) != manifest.Magic[b.at:b.at+have] {
			return 0, manifest.ErrNotManifest
		}
	}
	from, to := max(b.start-b.at, 0), min(b.end-b.at, int64(len(p)))
	if from < to {
		if b.p == nil {
			if b.reserve != nil {
				if err := b.reserve(b.end - b.start); err != nil {
					return 0, err
				}
			}
			b.p = make([]byte, 0, b.end-b.start)
		}
		b.p = append(b.p, p[from:to]...)
	}
	b.at += int64(len(p))
	return len(p), nil
}
