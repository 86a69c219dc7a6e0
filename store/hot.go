package store

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/b3"
)

// What the hot tier keeps, and how much it remembers.
const (
	hotMaxObject = 4 * b3.GroupSize // bytes; larger objects are left to the disk
	hotOverhead  = 512              // bytes charged for an object beside its own
	hotMinBytes  = 1 << 20          // least size of a shard, so that it holds several of the largest
	hotMaxShards = 16
	hotSeen      = 1024 // addresses that a shard remembers having been asked for once
)

// hot is the tier of verified objects in RAM above the disk. An object comes in
// when it is opened for the second time among the last 1,024 or so addresses of
// its shard, so that one pass over everything leaves what is in demand where it
// is; it leaves when it was not opened for longest and its bytes are needed.
//
// Invariant: what is here is visible and not marked corrupt, or is being
// dropped. Who removes or marks an object drops it; who opens one looks here
// under a lease, when no removal is under way.
type hot struct {
	shards []hotShard
	most   int64 // bytes of a shard

	bytes, objects, hits, misses atomic.Int64
}

type hotShard struct {
	mu    sync.Mutex
	held  *simplelru.LRU[b3.Root, *hotObject]
	seen  *simplelru.LRU[b3.Root, struct{}]
	bytes int64
}

// hotObject does not change.
type hotObject struct {
	e      entry
	mem    *b3.Memory
	reader *b3.Reader
}

func (o *hotObject) cost() int64 { return o.e.size + b3.OutboardSize(o.e.size) + hotOverhead }

// newHot returns a tier of that many bytes, or nil, which holds nothing.
func newHot(bytes int64) (*hot, error) {
	if bytes == 0 {
		return nil, nil
	}
	n := min(hotMaxShards, bytes/hotMinBytes)
	h := &hot{shards: make([]hotShard, n), most: bytes / n}
	for i := range h.shards {
		var err error
		s := &h.shards[i]
		if s.held, err = simplelru.NewLRU[b3.Root, *hotObject](int(h.most/hotOverhead)+1, nil); err != nil {
			return nil, fmt.Errorf("store: hot tier: %w", err)
		}
		if s.seen, err = simplelru.NewLRU[b3.Root, struct{}](hotSeen, nil); err != nil {
			return nil, fmt.Errorf("store: hot tier: %w", err)
		}
	}
	return h, nil
}

// shard is the one of root. Addresses are digests: any byte spreads them.
func (h *hot) shard(root b3.Root) *hotShard { return &h.shards[int(root[1])%len(h.shards)] }

// get returns root's bytes. Where it has none it notes that root was asked for,
// and wanted says that this was not the first time.
func (h *hot) get(root b3.Root) (o *hotObject, wanted bool) {
	if h == nil {
		return nil, false
	}
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.held.Get(root)
	if !ok {
		wanted = s.seen.Remove(root)
		if !wanted {
			s.seen.Add(root, struct{}{})
		}
	}
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	} else {
		h.misses.Add(1)
	}
	return o, wanted
}

// peek is get where root is held; where it is not, nothing is noted.
func (h *hot) peek(root b3.Root) *hotObject {
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.held.Get(root)
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	}
	return o
}

// add takes o in and lets go of what there is no room for.
func (h *hot) add(o *hotObject) {
	s := h.shard(o.e.root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.take(s, o.e.root)
	s.held.Add(o.e.root, o)
	h.count(s, 1, o.cost())
	for s.bytes > h.most {
		_, old, _ := s.held.RemoveOldest()
		h.count(s, -1, -old.cost())
	}
}

// drop forgets root.
func (h *hot) drop(root b3.Root) {
	if h == nil {
		return
	}
	s := h.shard(root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.take(s, root)
}

// take removes root from s, which is locked.
func (h *hot) take(s *hotShard, root b3.Root) {
	if old, ok := s.held.Peek(root); ok {
		s.held.Remove(root)
		h.count(s, -1, -old.cost())
	}
}

func (h *hot) count(s *hotShard, objects, bytes int64) {
	s.bytes += bytes
	h.bytes.Add(bytes)
	h.objects.Add(objects)
}

// warm brings e, which the caller leases, into the hot tier. An error is
// damage, or of the disk.
func (s *Store) warm(e *entry) (*hotObject, error) {
	mem, err := s.load(e)
	if err != nil {
		return nil, err
	}
	o := &hotObject{e: *e, mem: mem, reader: mem.Reader()}
	s.hot.add(o)
	// Who marked it corrupt in the meantime found nothing to drop.
	if now, ok, err := s.backend.get(e.root); err != nil || !ok || now.corrupt {
		s.hot.drop(e.root)
	}
	return o, nil
}

// load reads a whole object of at most hotMaxObject bytes and proves it; e is
// brought up to date when it has moved.
func (s *Store) load(e *entry) (*b3.Memory, error) {
	if small(e.size) {
		return s.readCurrent(e)
	}
	p, err := s.backend.openPair(*e)
	if err != nil {
		return nil, err
	}
	defer p.close()
	data, outboard := make([]byte, e.size), make([]byte, b3.OutboardSize(e.size))
	if err := readAll(p.data, data); err != nil {
		return nil, err
	}
	if err := readAll(p.outboard, outboard); err != nil {
		return nil, err
	}
	return b3.NewMemory(e.root, data, outboard)
}

// readAll fills p from the beginning of f.
func readAll(f file, p []byte) error {
	n, err := f.ReadAt(p, 0)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damage("short")
	}
	return readError(err)
}

// openHot returns root from the hot tier, nil when it is not there. The caller
// leases root. wanted says that it should be.
func (s *Store) openHot(root b3.Root) (o *Object, wanted bool) {
	if s.hot == nil || s.roots.removing(root) {
		return nil, false
	}
	h, wanted := s.hot.get(root)
	if h == nil {
		return nil, wanted
	}
	return s.hotOpened(h), false
}

func (s *Store) hotOpened(h *hotObject) *Object {
	return &Object{s: s, e: h.e, src: h.mem, reader: h.reader}
}

// Memory returns the bytes of root where they lie in the hot tier, proved, and
// nil otherwise. It reads no disk and counts as a use. Nobody changes the bytes;
// they stay readable when the object is deleted.
func (s *Store) Memory(root b3.Root) []byte {
	if s.hot == nil || s.enter() != nil {
		return nil
	}
	defer s.leave()
	if s.roots.removing(root) {
		return nil
	}
	o := s.hot.peek(root)
	if o == nil {
		return nil
	}
	s.used(root, o.e.added)
	return o.mem.Bytes()
}
