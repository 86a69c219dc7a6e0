package store

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/admission"
	"allium/protocols/b3"
)

// keptOpen is how many large objects stay open after they were read: two files
// each, and at most 272 KiB of proved parents (see [b3.Reader]).
const keptOpen = 64

// kept are large objects whose files stay open after the last reader closed
// them, least recently used out first: who serves ranges of one object to many
// neither opens its files nor proves the top of its tree for each range.
//
// Invariant: as of [hot], what is here is visible and not marked corrupt, or is
// being dropped. It holds no lease: who removes or marks an object drops it.
type kept struct {
	mu     sync.Mutex
	held   *simplelru.LRU[b3.Root, *keptObject]
	closed bool
}

// keptObject is an open large object. Its files are closed when it is neither
// held nor used.
type keptObject struct {
	e      entry
	src    pairSource
	reader *b3.Reader

	uses int  // guarded by kept.mu
	held bool // guarded by kept.mu
}

func newKept(limits *admission.Registry) (*kept, error) {
	lru, err := simplelru.NewLRU[b3.Root, *keptObject](keptOpen+1, nil)
	if err != nil {
		return nil, fmt.Errorf("store: kept objects: %w", err)
	}
	k := &kept{held: lru}
	limits.NewUsage(admission.Spec{
		Name: "store.kept_open", Path: "reads of large objects → files that stay open", Policy: "least recently used are closed",
	}, keptOpen, func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return int64(k.held.Len())
	})
	return k, nil
}

// get returns root for one use more, nil when it is not held. The use ends with
// release.
func (k *kept) get(root b3.Root) *keptObject {
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

// add holds o, which is in use once, and lets go of what was used least recently.
// Another one of the same root is replaced.
func (k *kept) add(o *keptObject) {
	k.mu.Lock()
	var idle []*keptObject
	if !k.closed {
		idle = k.take(o.e.root, idle)
		o.held = true
		k.held.Add(o.e.root, o)
		if k.held.Len() > keptOpen {
			_, old, _ := k.held.RemoveOldest()
			idle = old.unheld(idle)
		}
	}
	k.mu.Unlock()
	closeAll(idle)
}

// release ends one use of o.
func (k *kept) release(o *keptObject) {
	k.mu.Lock()
	o.uses--
	over := o.uses == 0 && !o.held
	k.mu.Unlock()
	if over {
		o.src.p.close()
	}
}

// drop lets go of root.
func (k *kept) drop(root b3.Root) {
	if k == nil {
		return
	}
	k.mu.Lock()
	idle := k.take(root, nil)
	k.mu.Unlock()
	closeAll(idle)
}

// close lets go of everything and holds nothing from here on.
func (k *kept) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	var idle []*keptObject
	for _, o := range k.held.Values() {
		idle = o.unheld(idle)
	}
	k.held.Purge()
	k.mu.Unlock()
	closeAll(idle)
}

// take removes root; k is locked. What nobody uses is added to idle, for the
// caller to close.
func (k *kept) take(root b3.Root, idle []*keptObject) []*keptObject {
	old, ok := k.held.Peek(root)
	if !ok {
		return idle
	}
	k.held.Remove(root)
	return old.unheld(idle)
}

// unheld notes that o is not held any more.
func (o *keptObject) unheld(idle []*keptObject) []*keptObject {
	if o.held = false; o.uses == 0 {
		return append(idle, o)
	}
	return idle
}

func closeAll(os []*keptObject) {
	for _, o := range os {
		o.src.p.close()
	}
}

// openKept returns root if its files are open, unless it is wanted in the hot
// tier and fits. The caller leases root.
func (s *Store) openKept(root b3.Root, wanted bool) *Object {
	if s.kept == nil || s.roots.removing(root) {
		return nil
	}
	o := s.kept.get(root)
	switch {
	case o == nil:
		return nil
	case wanted && o.e.size <= hotMaxObject:
		s.kept.release(o)
		return nil
	}
	return s.keptOpened(o)
}

func (s *Store) keptOpened(o *keptObject) *Object {
	return &Object{s: s, e: o.e, src: o.src, reader: o.reader, kept: o}
}

// openAndKeep opens e, which is large and the caller leases, so that it stays open.
func (s *Store) openAndKeep(e entry) (*Object, error) {
	p, err := s.backend.openPair(e)
	if err != nil {
		return nil, s.damaged(e, err)
	}
	src := pairSource{p, e.size}
	o := &keptObject{e: e, src: src, reader: b3.NewReader(e.root, e.size, src), uses: 1}
	s.kept.add(o)
	// Who marked it corrupt in the meantime found nothing to drop.
	if now, ok, err := s.backend.get(e.root); err != nil || !ok || now.corrupt || !now.sameAs(e) {
		s.kept.drop(e.root)
	}
	return s.keptOpened(o), nil
}
