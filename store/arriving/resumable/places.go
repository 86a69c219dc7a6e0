package resumable

import (
	"fmt"
	"hash/fnv"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Capability is the capability of a request. The zero Capability is that of the node's own
// user: it never ends, demands no label and has no share.
type Capability struct {
	ID    string    // shared by everything that is attenuated from one capability
	Until time.Time // when it ends; zero: never
	Label string    // label that pins must have; empty: any
}

// owner returns the owner whose share the uploads of c count against. Capabilities rarely have the
// same owner; they then have one share.
func (c Capability) owner() owner {
	if c.ID == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.ID)) // never fails
	return max(1, owner(h.Sum32()))
}

// owner identifies the capability that began an upload. 0 is the node's own user.
type owner uint32

// places counts the incomplete uploads, and shares their places among owners. An owner
// without an upload may take any free place, another one only while it has fewer than are
// free: alone half of all, the next one half of the rest. The zero owner may take all. The
// table's lock guards it.
type places struct {
	all   int64
	taken int64
	of    map[owner]int64 // without the zero owner
}

func (p *places) free() int64 { return max(0, p.all-p.taken) }

// may reports whether an owner may take a place.
func (p *places) may(o owner) bool {
	free, has := p.free(), p.of[o]
	return free > 0 && (has == 0 || has < free)
}

func (p *places) take(o owner) {
	p.taken++
	if o != 0 {
		p.of[o]++
	}
}

func (p *places) leave(o owner) {
	p.taken--
	if p.of[o]--; p.of[o] <= 0 {
		delete(p.of, o)
	}
}

// most returns the most places of one owner.
func (p *places) most() (n int64) {
	for _, has := range p.of {
		n = max(n, has)
	}
	return n
}

// limitPlaces registers the limits of incomplete uploads.
func limitPlaces(t *Table, reg *limits.Registry, all int64) {
	t.places = places{all: all, of: map[owner]int64{}}
	t.limit = reg.NewUsage(limits.Spec{
		Name: "store.uploads", Path: "gateway /u → uploads that are not whole",
		Policy: "drop one without a byte, of a capability with more than the one that asks; else reject busy",
	}, all, func() int64 { n, _ := t.count(); return n })
	t.each = reg.NewUsage(limits.Spec{
		Name: "store.uploads_each", Path: "one capability, or what is made of it → its uploads that are not whole",
		Policy: "a capability with uploads may begin one while it has fewer than are free; else as store.uploads",
	}, (all+1)/2, func() int64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.places.most()
	})
}

// reserve counts one more incomplete upload of o. If o may not have it, it gets the place of
// another owner's upload without a byte, or busy.
func (t *Table) reserve(o owner) error {
	for dropped := false; ; dropped = true {
		empty, ok := t.tryReserve(o, dropped)
		switch {
		case ok:
			t.limit.Grown()
			t.each.Grown()
			return nil
		case empty == nil:
			return t.refuse(o)
		}
		err := t.discard(empty, endedEvicted)
		t.unlock(empty)
		if err != nil {
			return err
		}
	}
}

// tryReserve counts one more incomplete upload of o if o may have it, or if a place is free
// and an upload was dropped for o. Otherwise it locks and returns an upload without a byte
// to be dropped, or nil.
func (t *Table) tryReserve(o owner, dropped bool) (empty *state, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places.may(o) || dropped && t.places.free() > 0 {
		t.places.take(o)
		return nil, true
	}
	if empty = t.emptyUpload(o); empty != nil {
		empty.busy, empty.expiring = true, true
	}
	return empty, false
}

// emptyUpload returns an upload without a byte: of the owner with the most uploads, the one that expires first. That
// owner has more uploads than o would have afterwards, so it cannot take the place back. The node's own uploads stay.
// The caller holds mu.
func (t *Table) emptyUpload(o owner) (empty *state) {
	most := int64(0)
	if o != 0 {
		most = t.places.of[o] + 1
	}
	for _, u := range t.uploads {
		of := ownerOf(u.rec.ID)
		if of == 0 || u.busy || u.rec.Done || u.rec.Offset > 0 {
			continue
		}
		has := t.places.of[of]
		if has > most || has == most && empty != nil && u.rec.Expires < empty.rec.Expires {
			empty, most = u, has
		}
	}
	return empty
}

// refuse counts a refusal and returns it.
func (t *Table) refuse(o owner) error {
	t.mu.Lock()
	has, free := t.places.of[o], t.places.free()
	t.mu.Unlock()
	const what = "End or remove one (DELETE /u/{id}), or send the object in one piece"
	if has > 0 && free > 0 {
		limit := t.each.Refuse()
		return &status.Error{Outcome: status.Busy, Limit: &limit, Message: fmt.Sprintf(
			"cannot begin the upload: %d uploads of this capability are not complete, and %d more places are free "+
				"(store.uploads_each). %s",
			has, free, what)}
	}
	limit := t.limit.Refuse()
	return &status.Error{Outcome: status.Busy, Limit: &limit, Message: fmt.Sprintf(
		"cannot begin the upload: %d uploads are not complete (store.uploads). %s", t.places.all, what)}
}

// unreserve ends what reserve counted.
func (t *Table) unreserve(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places.leave(o)
}
