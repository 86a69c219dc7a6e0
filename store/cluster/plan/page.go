package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Page has objects at rest in few bytes, as a node with many objects has little to do for each of them: about 60
// bytes for one with 3 copies. It is not safe for concurrent use.
//
// Of an object it keeps the address, the size, the targets, and which members proved a copy and when. Times are kept
// in steps of 1/4096 of the audit period, rounded down: a proof seems older than it is, not newer. The same bytes are
// what a node keeps over a restart.
type Page struct {
	unit    time.Duration // of times
	members []ID          // that the objects name, at most maxPageMembers
	recs    []byte        // the objects, one after the other; see Packed
	n       int
}

// Packed is an object of a [Page]. It is valid until that changes.
//
// Its bytes: the length of what follows, the address, a mark, the size, 3 bytes of when the latest member was
// asked in turn, the targets, and the holders up to the end. A target is the number of its member in the page,
// the copies, 64 if its origin is no member of the cluster, 128 if another target follows, and its sequence
// number. A holder is the number of its member × 4 + what is known of it, and 3 bytes of when it proved its
// copy, or was found without one. Numbers are varints.
type Packed struct {
	page *Page
	data []byte // without the length
}

const (
	unitsInAudit   = 4096
	maxPageMembers = 2 * MaxMembers
	markAt         = len(b3.Root{})
	sizeAt         = markAt + 1
	maxRecord      = 1<<8 - 1
	maxPageSize    = 1 << 24

	maxPackedTargets = 4 // of an object
	maxPackedSeen    = 24
)

// These are added to the copies of a target: its origin is no member, another target follows.
const (
	strangerTarget = 1 << 6
	moreTargets    = 1 << 7
)

// What is known of a holder.
const (
	packedAbsent = iota
	packedProved
	packedTold   // proved, and it knows the targets
	packedFailed // absent, and sends to it failed; the time is when the next one may begin, and their number follows
)

// NewPage returns a page without objects.
func NewPage(p Params) *Page { return &Page{unit: p.step()} }

// step is the step in which pages keep times.
func (p Params) step() time.Duration { return max(p.AuditPeriod/unitsInAudit, 1) }

// Floor rounds a time down as a [Page] does.
func (p Params) Floor(t time.Time) time.Time {
	return time.Unix(0, t.UnixNano()/int64(p.step())*int64(p.step()))
}

// Len returns the number of objects.
func (pg *Page) Len() int { return pg.n }

// All calls yield for each object, until it returns false.
func (pg *Page) All(yield func(Packed) bool) {
	for at := 0; at < len(pg.recs); {
		end := at + 1 + int(pg.recs[at])
		if !yield(Packed{pg, pg.recs[at+1 : end]}) {
			return
		}
		at = end
	}
}

// find returns where the bytes of an object begin and end. ok is false if it is not there.
func (pg *Page) find(root *b3.Root) (at, end int, ok bool) {
	for end < len(pg.recs) {
		at, end = end, end+1+int(pg.recs[end])
		if bytes.Equal(pg.recs[at+1:at+1+len(root)], root[:]) {
			return at, end, true
		}
	}
	return 0, 0, false
}

// Get returns an object.
func (pg *Page) Get(root b3.Root) (k Packed, ok bool) {
	at, end, ok := pg.find(&root)
	if ok {
		k = Packed{pg, pg.recs[at+1 : end]}
	}
	return k, ok
}

// Remove removes an object.
func (pg *Page) Remove(root b3.Root) {
	if at, end, ok := pg.find(&root); ok {
		pg.recs = slices.Delete(pg.recs, at, end)
		pg.n--
	}
}

// RemoveFunc removes the objects for which gone returns true.
func (pg *Page) RemoveFunc(gone func(Packed) bool) {
	left := pg.recs[:0]
	pg.n = 0
	for k := range pg.All {
		if !gone(k) {
			left = append(append(left, byte(len(k.data))), k.data...) // never past what is read
			pg.n++
		}
	}
	pg.recs = left
}

// Add adds an object that is [Object.AtRest] and not there yet, with a mark, and reports whether it fits.
func (pg *Page) Add(o *Object, mark byte) bool {
	at := len(pg.recs)
	b := append(pg.recs, 0)
	b = append(append(b, o.Root[:]...), mark)
	b = binary.AppendUvarint(b, uint64(o.Size))
	b = pg.appendTime(b, o.swept)
	for i, a := range o.asked {
		b = binary.AppendUvarint(b, uint64(pg.member(a.Origin)))
		copies := byte(a.Target.Copies)
		if a.stranger {
			copies |= strangerTarget
		}
		if i < len(o.asked)-1 {
			copies |= moreTargets
		}
		b = append(b, copies)
		b = binary.AppendUvarint(b, a.Target.Seq)
	}
	version := o.version()
	for i := range o.seen {
		s := &o.seen[i]
		if s.proof != proved && (s.proof != absent || s.fails == 0 && !o.asks(s.id)) {
			continue // it is asked again in its turn
		}
		what, when := uint64(packedAbsent), s.asked
		switch {
		case s.proof == proved && s.told == version:
			what, when = packedTold, s.at
		case s.proof == proved:
			what, when = packedProved, s.at
		case s.fails > 0:
			what, when = packedFailed, s.retry
		}
		b = binary.AppendUvarint(b, uint64(pg.member(s.id))<<2|what)
		b = pg.appendTime(b, when)
		if what == packedFailed {
			b = append(b, byte(min(s.fails, maxDoubled+1)))
		}
	}
	n := len(b) - at - 1
	if n > maxRecord || len(b) > maxPageSize || len(pg.members) > maxPageMembers {
		return false
	}
	b[at] = byte(n)
	pg.recs = b
	pg.n++
	return true
}

// Clip gives back the bytes that are not used, if these are many.
func (pg *Page) Clip() {
	if cap(pg.recs)-len(pg.recs) > len(pg.recs)/64 {
		pg.recs = bytes.Clone(pg.recs)
	}
}

// member returns the number of a member, which it adds where that is new.
func (pg *Page) member(id ID) int {
	i := slices.Index(pg.members, id)
	if i < 0 {
		i = len(pg.members)
		pg.members = append(pg.members, id)
	}
	return i
}

func (pg *Page) appendTime(b []byte, t time.Time) []byte {
	u := uint32(t.UnixNano() / int64(pg.unit)) // of which three bytes are kept
	return append(b, byte(u), byte(u>>8), byte(u>>16))
}

// Root returns the address.
func (k Packed) Root() b3.Root { return b3.Root(k.data[:len(b3.Root{})]) }

// Mark returns a byte of the caller's, which it may change.
func (k Packed) Mark() *byte { return &k.data[markAt] }

// Read returns the object for reading, as of now. What is due is not told: see Unpack.
func (k Packed) Read(now time.Time) *Object {
	o, err := k.object(now)
	if err != nil { // ReadPage has seen all of it
		return NewObject(k.Root(), 0, now)
	}
	return o
}

// Unpack returns the object as of now. If v is the view with which it was at rest it rests on; v may be nil.
func (k Packed) Unpack(v *View, p Params, now time.Time) *Object {
	o := k.Read(now)
	for i := range o.seen {
		if s := &o.seen[i]; s.fails == 0 {
			s.due = s.asked.Add(o.auditIn(s.id, p, s.asked))
		}
	}
	if v != nil {
		o.rest = rest{o.nextChallenge(v, o.swept.Add(p.AuditPeriod)), v.version}
	}
	return o
}

var errPage = errors.New("the page is malformed")

// object reads all bytes of an object. What it says of the future is not taken.
func (k Packed) object(now time.Time) (*Object, error) {
	r := reader{data: k.data[sizeAt:], unit: k.page.unit, now: now.UnixNano() / int64(k.page.unit)}
	o := &Object{Root: k.Root(), Size: int64(r.number() & (1<<62 - 1)), Here: true}
	o.swept = r.time()
	for more := true; more; {
		id := k.member(&r, r.number())
		copies := r.byte()
		more = copies&moreTargets != 0
		t := meta.Target{Copies: int(copies &^ (strangerTarget | moreTargets)), Seq: r.number()}
		if r.failed || len(o.asked) == maxPackedTargets || !t.Wants() || t.Check() != nil {
			return nil, errPage
		}
		o.asked = append(o.asked, Asked{Origin: id, Target: t, stranger: copies&strangerTarget != 0})
	}
	version := o.version()
	o.seen = make([]replica, 0, len(r.data)/4)
	for len(r.data) > 0 {
		what := r.number()
		s := replica{id: k.member(&r, what>>2)}
		at := r.time()
		s.asked, s.first = at, at
		switch what & 3 {
		case packedAbsent:
			s.proof = absent
		case packedTold:
			s.proof, s.at, s.told = proved, at, version
		case packedProved:
			s.proof, s.at = proved, at
		case packedFailed:
			s.proof, s.retry, s.due, s.fails = absent, at, at, int(r.byte())
			s.asked, s.first = time.Time{}, time.Time{}
		}
		if s.asked.After(now) {
			continue
		}
		o.seen = append(o.seen, s)
	}
	if r.failed || len(o.seen) > maxPackedSeen {
		return nil, errPage
	}
	return o, nil
}

// member returns the member with a number of the page.
func (k Packed) member(r *reader, i uint64) ID {
	if i >= uint64(len(k.page.members)) {
		r.failed = true
		return ""
	}
	return k.page.members[i]
}

// reader reads the bytes of an object. Past the end it gives zeros.
type reader struct {
	data   []byte
	unit   time.Duration
	now    int64 // in units
	failed bool
}

func (r *reader) number() uint64 {
	x, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.failed, r.data = true, nil
		return 0
	}
	r.data = r.data[n:]
	return x
}

func (r *reader) take(n int) []byte {
	if len(r.data) < n {
		r.failed, r.data = true, nil
		return make([]byte, n)
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) byte() byte { return r.take(1)[0] }

// time returns the time that has these last bits and is next to now.
func (r *reader) time() time.Time {
	b := r.take(3)
	u := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
	u = r.now + int64(int32(uint32(u-r.now)<<8)>>8)
	return time.Unix(0, u*int64(r.unit))
}
