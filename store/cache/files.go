package cache

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
)

// OpenFiles are large objects whose files stay open after the last reader closed
// them, most of them at a time, least recently used out first. Each has two
// files, and at most 272 KiB of proved parents (see [b3.Reader]): who serves ranges of one object to many
// neither opens its files nor proves the top of its tree for each range.
//
// Invariant: as of [RAM], what is here is visible and not marked corrupt, or is
// being dropped. It holds no lease: who removes or marks an object drops it.
type OpenFiles struct {
	most int
	hash *b3.HashQueue // nil: none

	mu     sync.Mutex
	held   *simplelru.LRU[b3.Root, *Opened]
	closed bool
}

// Opened is an open large object. Its files are closed when it is neither
// held nor used.
type Opened struct {
	Entry  meta.Entry
	Src    meta.PairSource
	Reader *b3.Reader

	uses int  // guarded by OpenFiles.mu
	held bool // guarded by OpenFiles.mu
}

// NewOpenFiles returns a cache of that many objects, listed in registry. The groups
// that are read of them pass hash.
func NewOpenFiles(most int, hash *b3.HashQueue, registry *limits.Registry) (*OpenFiles, error) {
	lru, err := simplelru.NewLRU[b3.Root, *Opened](most+1, nil)
	if err != nil {
		return nil, fmt.Errorf("store: kept objects: %w", err)
	}
	k := &OpenFiles{most: most, hash: hash, held: lru}
	registry.NewUsage(limits.Spec{
		Name: "store.kept_open", Path: "reads of large objects → files that stay open", Policy: "least recently used are closed",
	}, int64(most), func() int64 { return int64(k.Len()) })
	return k, nil
}

// Get returns root for one use more, nil when it is not held. The use ends with
// release.
func (k *OpenFiles) Get(root b3.Root) *Opened {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o, ok := k.held.Get(root)
	if !ok {
		return nil
	}
	o.uses++
	return o
}

// Add holds e, whose files were opened for one use, which ends with release, and
// lets go of what was used least recently. Another one of the same root is
// replaced.
func (k *OpenFiles) Add(e meta.Entry, p meta.Pair) *Opened {
	src := meta.PairSource{Pair: p, Size: e.Size}
	o := &Opened{Entry: e, Src: src, Reader: k.hash.Reader(e.Root, e.Size, src), uses: 1}
	k.mu.Lock()
	var idle []*Opened
	if !k.closed {
		idle = k.take(o.Entry.Root, idle)
		o.held = true
		k.held.Add(o.Entry.Root, o)
		if k.held.Len() > k.most {
			_, old, _ := k.held.RemoveOldest()
			idle = old.unheld(idle)
		}
	}
	k.mu.Unlock()
	closeAll(idle)
	return o
}

// Len returns how many objects it holds.
func (k *OpenFiles) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held.Len()
}

// Release ends one use of o.
func (k *OpenFiles) Release(o *Opened) {
	k.mu.Lock()
	o.uses--
	over := o.uses == 0 && !o.held
	k.mu.Unlock()
	if over {
		o.Src.Pair.Close()
	}
}

// Drop lets go of root.
func (k *OpenFiles) Drop(root b3.Root) {
	if k == nil {
		return
	}
	k.mu.Lock()
	idle := k.take(root, nil)
	k.mu.Unlock()
	closeAll(idle)
}

// Close lets go of everything and holds nothing from here on.
func (k *OpenFiles) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	var idle []*Opened
	for _, o := range k.held.Values() {
		idle = o.unheld(idle)
	}
	k.held.Purge()
	k.mu.Unlock()
	closeAll(idle)
}

// take removes root; k is locked. What nobody uses is added to idle, for the
// caller to close.
func (k *OpenFiles) take(root b3.Root, idle []*Opened) []*Opened {
	old, ok := k.held.Peek(root)
	if !ok {
		return idle
	}
	k.held.Remove(root)
	return old.unheld(idle)
}

// unheld notes that o is not held any more.
func (o *Opened) unheld(idle []*Opened) []*Opened {
	if o.held = false; o.uses == 0 {
		return append(idle, o)
	}
	return idle
}

func closeAll(os []*Opened) {
	for _, o := range os {
		o.Src.Pair.Close()
	}
}

// Shed closes the objects that nobody reads right now, and returns how many
// files they had.
func (k *OpenFiles) Shed() int {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	var idle []*Opened
	for _, root := range k.held.Keys() {
		if o, _ := k.held.Peek(root); o.uses == 0 {
			idle = k.take(root, idle)
		}
	}
	k.mu.Unlock()
	closeAll(idle)
	return 2 * len(idle)
}
