package namestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	ds "github.com/ipfs/go-datastore"

	"allium/protocols/dht/persist"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Bounds of a [Seen]. The least recently used is forgotten.
const (
	MaxFloors = 32 << 10 // names whose highest sequence number is remembered, at about 200 bytes each
	MaxFound  = 8 << 20  // bytes of what was found, see [Found]
)

// ttlSpread is the share by which a record is looked up again before its TTL ends, at most, so that
// the records of one moment are not all looked up at one moment.
const ttlSpread = 0.2

// Seen remembers the names that this node has looked up, published or followed. Names that others put here do not
// count, as anybody could push out the rest with them. Of each name it has what the last lookup found, in RAM alone,
// and the highest record so far, also across restarts and after the record has expired. So a replayed older record is
// never taken for the current one (SPEC §6). It implements [persist.Table] for the highest records. Its methods are
// safe for concurrent use.
type Seen struct {
	mu      sync.Mutex // lock: leaf
	floors  *simplelru.LRU[Key, floor]
	changes *persist.Changes[Key]
	found   *simplelru.LRU[name.Name, Found]
	bytes   int64 // of found
}

// Found holds what the last lookup of a name found. Without records there are none.
type Found struct {
	Versions name.Versions
	At       time.Time
	Until    time.Time // when it has to be looked up again
}

// Serves reports whether what was found may be used at now, up to maxStale after its end.
func (f Found) Serves(now time.Time, maxStale time.Duration) bool { return now.Sub(f.Until) < maxStale }

// size returns the bytes that are counted for what was found.
func (f Found) size() int64 {
	n := int64(entryBytes)
	for _, r := range f.Versions.Records() {
		n += 2 * int64(len(r.Envelope)) // the decoded record has no more than its envelope
	}
	return n
}

// floor holds the remembered properties of a record.
type floor struct {
	_     struct{} `cbor:",toarray"`
	Seq   uint64
	Value []byte // SHA-256 of the value: another one with the same sequence number equivocates
}

// NewSeen returns a Seen that remembers nothing. persisted says that changes are collected.
func NewSeen(persisted bool) *Seen {
	s := &Seen{}
	var err error
	if s.floors, err = simplelru.NewLRU(MaxFloors, func(key Key, _ floor) { s.changes.Add(key) }); err != nil {
		panic(err) // only for a size below one
	}
	// The bytes bound what was found before its number does.
	s.found, err = simplelru.NewLRU(MaxFound/entryBytes+1, func(_ name.Name, f Found) { s.bytes -= f.size() })
	if err != nil {
		panic(err) // only for a size below one
	}
	if persisted {
		s.changes = persist.NewChanges[Key]()
	}
	return s
}

// Get returns what was found of a name. ok is false if nothing is remembered, also not that there is no record.
func (s *Seen) Get(n name.Name) (f Found, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.Get(n)
}

// Peek is Get for callers that do not use the name.
func (s *Seen) Peek(n name.Name) (f Found, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.Peek(n)
}

// Remember merges v, the records of a name that were found at now, with those that were found before, and returns the
// result. It keeps a record for 80 to 100 % of its TTL, and never past its end; the absence of records it keeps for
// absent. The error is that of [Seen.Raise], and then nothing has changed.
func (s *Seen) Remember(n name.Name, v name.Versions, now time.Time, absent time.Duration) (Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, _ := s.found.Peek(n)
	f := Found{Versions: old.Versions.Merge(v), At: now, Until: now.Add(absent)}
	if err := s.raise(f.Versions); err != nil {
		return Found{}, err
	}
	if rec, ok := f.Versions.Current(); ok {
		f.Until = now.Add(rec.TTL - rand.N(time.Duration(ttlSpread*float64(rec.TTL))+1))
		if f.Until.After(rec.NotAfter) {
			f.Until = rec.NotAfter
		}
	}
	s.found.Remove(n)
	s.found.Add(n, f)
	s.bytes += f.size()
	for s.bytes > MaxFound && s.found.Len() > 1 {
		s.found.RemoveOldest()
	}
	return f, nil
}

// Bytes returns the bytes of what was found, at most [MaxFound].
func (s *Seen) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Raise checks what was found of a name against the highest record so far, and remembers it if it
// is higher. The error is stale if it is lower, and equivocation if the highest record had another
// value with the same sequence number.
func (s *Seen) Raise(v name.Versions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raise(v)
}

// raise is Raise for callers that hold mu.
func (s *Seen) raise(v name.Versions) error {
	rec, ok := v.Current()
	if !ok {
		return nil
	}
	key := Key(rec.Name.Digest())
	old, known := s.floors.Get(key)
	switch {
	case known && rec.Seq < old.Seq:
		return status.Errorf(status.Stale,
			"the holders of %s have the record with the number %d, older than the one that this node has verified "+
				"before, %d",
			rec.Name, rec.Seq, old.Seq)
	case known && rec.Seq == old.Seq:
		if v.Equivocates() || bytes.Equal(sumOf(rec.Value), old.Value) {
			return nil // of two values the caller sees both
		}
		return status.Errorf(status.Equivocation,
			"the owner of the zone of %s signed another value with the number %d than the one that this node knows",
			rec.Name, rec.Seq)
	}
	s.floors.Add(key, floor{Seq: rec.Seq, Value: sumOf(rec.Value)})
	s.changes.Add(key)
	return nil
}

// Seq returns the highest sequence number of a name that is remembered, 0 if none is.
func (s *Seen) Seq(n name.Name) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, _ := s.floors.Get(n.Digest())
	return old.Seq
}

func sumOf(v name.Value) []byte {
	sum := sha256.Sum256([]byte(v.String()))
	return sum[:]
}

// Path implements [persist.Table].
func (*Seen) Path(key Key) ds.Key { return Table{}.Path(key) }

// ParsePath implements [persist.Table].
func (*Seen) ParsePath(path string) (Key, error) { return Table{}.ParsePath(path) }

// Keys implements [persist.Table].
func (s *Seen) Keys() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floors.Keys()
}

// Values implements [persist.Table].
func (s *Seen) Values(keys []Key) (map[Key][]byte, error) {
	found := make(map[Key]floor, len(keys))
	s.mu.Lock()
	for _, key := range keys {
		if f, ok := s.floors.Peek(key); ok {
			found[key] = f
		}
	}
	s.mu.Unlock()
	return encode(found)
}

// Restore implements [persist.Table].
func (s *Seen) Restore(_ context.Context, key Key, value []byte) error {
	var old floor
	if err := canonical.Unmarshal(value, &old); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrRefused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.floors.Peek(key); !ok || now.Seq < old.Seq {
		s.floors.Add(key, old)
	}
	return nil
}

// TakeChanges implements [persist.Table].
func (s *Seen) TakeChanges() (changed []Key, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes.Take()
}

// MarkChanged implements [persist.Table].
func (s *Seen) MarkChanged(keys ...Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.Add(keys...)
}
