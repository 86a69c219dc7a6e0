package namestore

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"allium/internal/heaviest"
	"allium/protocols/dht/persist"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Bounds of a [Store].
const (
	MaxRecords = 100_000
	MaxBytes   = 64 << 20 // of envelopes, with entryBytes for each record
	MaxPerZone = 1000

	entryBytes = 512 // of RAM that a record takes beside its envelope
)

// sweepPause is the shortest time between two scans of a full store for expired records. The
// service scans each minute anyway.
const sweepPause = time.Second

// Store holds name records in RAM. Its methods are safe for concurrent use.
type Store struct {
	cfg       Config
	mayExpire func() bool // reports that the clock is right; called without mu

	mu      sync.Mutex            // lock: leaf
	changes *persist.Changes[Key] // nil: nothing is persisted
	held    map[Key]*entry
	zones   map[name.Zone]int // records of each zone
	groups  map[string]*group
	largest heaviest.Heap[*group] // by bytes, without this node's own
	due     heaviest.Heap[*entry] // the earliest first
	size    int                   // bytes of all records
	swept   time.Time             // when expired records were last dropped to make space
}

// Config has the numbers of a [Store]. Every node uses those of [DefaultConfig].
type Config struct {
	Records int // at least 1
	Bytes   int // of all records
	PerZone int // records of one zone
	// PassOn is the shortest time between two puts of a record by its holders.
	PassOn time.Duration
}

// DefaultConfig returns the bounds of every node.
func DefaultConfig() Config {
	return Config{Records: MaxRecords, Bytes: MaxBytes, PerZone: MaxPerZone, PassOn: time.Hour}
}

// Key stands for a name: [name.Name.Digest].
type Key [32]byte

// entry is the stored state of one name.
type entry struct {
	key     Key
	v       name.Versions // never empty
	group   *group
	element *list.Element // in its group
	passOn  time.Time     // when this node sends it to the closest peers again
	index   int           // in Store.due
}

// Weight and Place implement heaviest.Item: the earliest is the heaviest.
func (e *entry) Weight() int64 { return -e.passOn.UnixNano() }
func (e *entry) Place() *int   { return &e.index }

func (e *entry) zone() name.Zone { return e.v.Records()[0].Name.Zone }

// size returns the bytes that the entry counts.
func (e *entry) size() int {
	n := entryBytes
	for _, r := range e.v.Records() {
		n += len(r.Envelope)
	}
	return n
}

// expired reports whether no record of the entry is valid any more.
func (e *entry) expired(now time.Time) bool { return len(valid(e.v, now)) == 0 }

// valid returns the records that have not expired.
func valid(v name.Versions, now time.Time) []name.Signed {
	return slices.DeleteFunc(slices.Clone(v.Records()), func(r name.Signed) bool { return r.NotAfter.Before(now) })
}

// group holds the records that came from one IP group.
type group struct {
	name    string    // see ipgroup.Key; empty: this node itself
	entries list.List // of *entry, the newest last
	bytes   int
	index   int // in Store.largest; -1: this node's own, not in the heap
}

// Weight and Place implement heaviest.Item.
func (g *group) Weight() int64 { return int64(g.bytes) }
func (g *group) Place() *int   { return &g.index }

// NewStore returns an empty store. While mayExpire returns false, the clock may be wrong and no
// record is dropped for having expired.
func NewStore(cfg Config, mayExpire func() bool) *Store {
	return &Store{
		cfg: cfg, mayExpire: mayExpire,
		held: map[Key]*entry{}, zones: map[name.Zone]int{}, groups: map[string]*group{},
	}
}

// The errors of [Store.Put].
var (
	ErrStale = status.Errorf(status.Stale, "a newer record of the name is stored")
	ErrFull  = status.Errorf(status.Quota, "there is no place for another record of the zone, "+
		"or of the IP group of the sender's connection")
	ErrEquivocation = status.Errorf(status.Equivocation,
		"the zone signed two records with the same sequence number")
)

// Put stores a verified record that came from an IP group (see ipgroup.Key; empty for this
// node's own). If the record is stored already, Put notes that it arrived again. The error is
// ErrStale, ErrFull, or ErrEquivocation if another value with the same sequence number is
// stored; then both are.
func (s *Store) Put(r name.Signed, from string, now time.Time) error {
	expire := s.mayExpire()
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, err := s.put(r, from, now, expire)
	if changed {
		s.changes.Add(Key(r.Name.Digest()))
	}
	return err
}

// Update is Put for a record that came by another way than a put: it is stored only if the store
// has an older record of the name, and counts for the group of that.
func (s *Store) Update(r name.Signed, now time.Time) {
	expire := s.mayExpire()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key(r.Name.Digest())
	old := s.held[key]
	if old == nil || old.v.Seq() >= r.Seq {
		return
	}
	if changed, _ := s.put(r, old.group.name, now, expire); changed { // without a place the old one stays
		s.changes.Add(key)
	}
}

// restore is Put for a record that the datastore already has.
func (s *Store) restore(r name.Signed, from string, now time.Time) error {
	expire := s.mayExpire()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.put(r, from, now, expire)
	return err
}

// put is Put for callers that hold mu. It reports whether the store has changed.
func (s *Store) put(r name.Signed, from string, now time.Time, expire bool) (changed bool, err error) {
	key := Key(r.Name.Digest())
	old := s.held[key]
	if old == nil {
		v, _ := name.Versions{}.Add(r)
		err := s.insert(&entry{key: key, v: v}, from, now, expire)
		return err == nil, err
	}
	v, rel := old.v.Add(r)
	if rel == name.Older {
		return false, ErrStale
	}
	same := func(a, b name.Signed) bool { return a.Record == b.Record }
	if changed = !slices.EqualFunc(v.Records(), old.v.Records(), same); !changed {
		s.schedule(old, now)
	} else if err := s.replace(old, v, from, now, expire); err != nil {
		return false, err
	}
	if v.Equivocates() {
		return changed, ErrEquivocation
	}
	return changed, nil
}

// replace gives a name other records. A name that has no place any more keeps those it had.
func (s *Store) replace(old *entry, v name.Versions, from string, now time.Time, expire bool) error {
	group := old.group.name
	s.drop(old)
	err := s.insert(&entry{key: old.key, v: v}, from, now, expire)
	if err != nil {
		s.place(&entry{key: old.key, v: old.v}, group, now) // its place is still free
	}
	return err
}

// insert adds an entry. If expire is set, it first drops expired records when it needs a place.
func (s *Store) insert(e *entry, from string, now time.Time, expire bool) error {
	if from != "" && s.zones[e.zone()] >= s.cfg.PerZone || !s.freeSpace(e.size(), from, now, expire) {
		return ErrFull
	}
	s.place(e, from, now)
	return nil
}

// place adds an entry for which there is a place.
func (s *Store) place(e *entry, from string, now time.Time) {
	g := s.groups[from]
	if g == nil {
		g = &group{name: from, index: -1}
		s.groups[from] = g
		if from != "" {
			s.largest.Push(g)
		}
	}
	e.group, e.element = g, g.entries.PushBack(e)
	s.grow(g, e.size())
	s.held[e.key] = e
	s.zones[e.zone()]++
	e.passOn = s.nextPass(now)
	s.due.Push(e)
}

// freeSpace makes a place of n bytes for a record from a group, and reports whether there is one.
func (s *Store) freeSpace(n int, from string, now time.Time, expire bool) bool {
	full := func() bool { return len(s.held) >= s.cfg.Records || s.size+n > s.cfg.Bytes }
	if full() && expire && now.Sub(s.swept).Abs() >= sweepPause {
		s.swept = now
		s.sweep(now)
	}
	mine := n
	if g := s.groups[from]; g != nil {
		mine += g.bytes
	}
	for full() {
		if len(s.largest) == 0 {
			return false
		}
		most := s.largest[0]
		newest := most.entries.Back().Value.(*entry)
		if from != "" && most.bytes-newest.size() < mine {
			return false
		}
		s.drop(newest)
	}
	return true
}

// grow changes the bytes of a group, and of the store.
func (s *Store) grow(g *group, by int) {
	g.bytes += by
	s.size += by
	if g.index >= 0 {
		s.largest.Fix(g)
	}
}

// drop removes an entry.
func (s *Store) drop(e *entry) {
	g := e.group
	g.entries.Remove(e.element)
	s.grow(g, -e.size())
	if g.entries.Len() == 0 {
		if g.index >= 0 {
			s.largest.Remove(g)
		}
		delete(s.groups, g.name)
	}
	zone := e.zone()
	if s.zones[zone]--; s.zones[zone] == 0 {
		delete(s.zones, zone)
	}
	s.due.Remove(e)
	delete(s.held, e.key)
	s.changes.Add(e.key)
}

// Get returns the record of a name, two that equivocate, or none. None of them has expired.
func (s *Store) Get(key Key, now time.Time) []name.Signed {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held[key]
	if e == nil {
		return nil
	}
	return valid(e.v, now)
}

// OfZone returns the records of a zone that have not expired, in no order. It looks at every record, so
// it is for rare calls.
func (s *Store) OfZone(zone name.Zone, now time.Time) (all []name.Signed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.held {
		if e.zone() == zone {
			all = append(all, valid(e.v, now)...)
		}
	}
	return all
}

// Sweep drops expired records, unless the clock may be wrong.
func (s *Store) Sweep(now time.Time) {
	if !s.mayExpire() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
}

func (s *Store) sweep(now time.Time) {
	for _, e := range s.held {
		if e.expired(now) {
			s.drop(e)
		}
	}
}

// Due returns up to limit records whose time to be passed on has come, and gives them their
// next time. Expired records are left out.
func (s *Store) Due(limit int, now time.Time) []name.Signed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []name.Signed
	for len(due) < limit && len(s.due) > 0 && !s.due[0].passOn.After(now) {
		e := s.due[0]
		s.schedule(e, now)
		due = append(due, valid(e.v, now)...)
	}
	return due
}

// schedule gives an entry its next time to be passed on.
func (s *Store) schedule(e *entry, now time.Time) {
	e.passOn = s.nextPass(now)
	s.due.Fix(e)
}

// nextPass returns a random time from one to two intervals after now.
func (s *Store) nextPass(now time.Time) time.Time {
	return now.Add(s.cfg.PassOn + rand.N(s.cfg.PassOn))
}

// Len returns the number of names, and the bytes that their records count.
func (s *Store) Len() (names, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), s.size
}
