package objects

import (
	"context"
	"errors"
	"io"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// Loader reads stored objects of which the caller has the entry. Its methods are safe for
// concurrent use.
type Loader struct {
	backend meta.Objects
	hash    *b3.HashQueue // may be nil
}

// OpenPair opens a large object, unverified; see [meta.Objects].
func (l Loader) OpenPair(e meta.Entry) (meta.Pair, error) { return l.backend.OpenPair(e) }

// Load reads a whole object of at most [cache.MaxObject] bytes into RAM and
// verifies it. If compaction moved its record, Load updates e.
func (l Loader) Load(e *meta.Entry) (*b3.Memory, error) {
	if meta.Small(e.Size) {
		return l.readSmall(e)
	}
	pair, err := l.OpenPair(*e)
	if err != nil {
		return nil, err
	}
	defer pair.Close()
	data, outboard := make([]byte, e.Size), make([]byte, b3.OutboardSize(e.Size))
	if err := meta.ReadFull(pair.Data, data); err != nil {
		return nil, err
	}
	if err := meta.ReadFull(pair.Outboard, outboard); err != nil {
		return nil, err
	}
	return l.hash.Memory(e.Root, data, outboard)
}

// maxMoves limits how often readSmall looks up a record again that compaction moved.
const maxMoves = 8

// readSmall reads the small object e and verifies it. Compaction may move the
// record after e was looked up, and the old file may be reused. Then readSmall
// looks the record up again and updates e. Only a bad record at its current
// place is damage.
func (l Loader) readSmall(e *meta.Entry) (*b3.Memory, error) {
	for moves := 0; ; moves++ {
		mem, err := l.readSmallAt(*e)
		if err == nil || moves == maxMoves {
			return mem, err
		}
		now, ok, lookupErr := l.backend.Get(e.Root)
		if lookupErr != nil || !ok || now.SamePlace(*e) {
			return nil, err
		}
		*e = now
	}
}

func (l Loader) readSmallAt(e meta.Entry) (*b3.Memory, error) {
	data, err := l.backend.Read(e)
	if err != nil {
		return nil, err
	}
	return l.hash.Memory(e.Root, data, nil)
}

// Directory reads and verifies the directory node root. It returns nil when
// root is not stored or is a file. When its bytes are damaged and may have been
// a directory, it returns meta.ErrDamagedDirectory. It does not count as a use.
func (p *Opener) Directory(ctx context.Context, root b3.Root) (*manifest.Node, error) {
	if err := p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer p.deps.Admission.Leave()
	p.deps.Leases.Acquire(root)
	e, ok, err := p.Lookup(root)
	if err != nil || !ok || e.Size > manifest.MaxNode || e.Size < int64(len(manifest.Magic)) {
		p.deps.Leases.Release(root)
		return nil, err
	}
	if e.Corrupt {
		p.deps.Leases.Release(root)
		return nil, meta.ErrDamagedDirectory
	}
	o, err := p.openEntry(e)
	if err != nil {
		p.deps.Leases.Release(root)
		return nil, directoryError(err)
	}
	defer o.Close()
	data := make([]byte, e.Size)
	if _, err := o.Reader().ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		if status.Of(err) == status.Corrupt {
			err = p.Damaged(e, err)
		}
		return nil, directoryError(err)
	}
	n, err := manifest.Decode(data)
	if err != nil {
		return nil, nil // a file
	}
	return n, nil
}

func directoryError(err error) error {
	if status.Of(err) == status.Corrupt {
		return errors.Join(meta.ErrDamagedDirectory, err)
	}
	return err
}
