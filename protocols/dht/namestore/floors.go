package namestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	ds "github.com/ipfs/go-datastore"

	"allium/protocols/dht/persist"
	"allium/protocols/name"
	"allium/protocols/status"
)

// MaxFloors bounds the names whose highest sequence number is remembered, at about 200 bytes each.
// The least recently used is forgotten.
const MaxFloors = 32 << 10

// Floors remembers the highest record of each name that this node has looked up or published, also across restarts and
// after the record has expired. So a replayed older record is never taken for the current one (SPEC §6). Names that
// others put here do not count, as anybody could push out the rest with them. It implements [persist.Table]. Its
// methods are safe for concurrent use.
type Floors struct {
	mu      sync.Mutex // lock: leaf
	lru     *simplelru.LRU[Key, floor]
	changes *persist.Changes[Key]
}

// floor holds the remembered properties of a record.
type floor struct {
	_     struct{} `cbor:",toarray"`
	Seq   uint64
	Value []byte // SHA-256 of the value: another one with the same sequence number equivocates
}

// NewFloors returns a Floors that remembers nothing. persisted says that changes are collected.
func NewFloors(persisted bool) *Floors {
	f := &Floors{}
	lru, err := simplelru.NewLRU(MaxFloors, func(key Key, _ floor) { f.changes.Add(key) })
	if err != nil {
		panic(err) // only for a size below one
	}
	f.lru = lru
	if persisted {
		f.changes = persist.NewChanges[Key]()
	}
	return f
}

// Raise checks what was found of a name against the highest record so far, and remembers it if it
// is higher. The error is stale if it is lower, and equivocation if the highest record had another
// value with the same sequence number.
func (f *Floors) Raise(v name.Versions) error {
	rec, ok := v.Current()
	if !ok {
		return nil
	}
	key := Key(rec.Name.Digest())
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.lru.Get(key)
	switch {
	case known && rec.Seq < old.Seq:
		return status.Errorf(status.Stale,
			"the holders of %s have the record with the number %d, older than the one that this node has verified "+
				"before, %d",
			rec.Name, rec.Seq, old.Seq)
	case known && rec.Seq == old.Seq:
		for _, r := range v.Records() {
			if string(sumOf(r.Value)) == string(old.Value) {
				return nil
			}
		}
		return status.Errorf(status.Equivocation,
			"the owner of the zone of %s signed another value with the number %d than the one that this node knows",
			rec.Name, rec.Seq)
	}
	f.lru.Add(key, floor{Seq: rec.Seq, Value: sumOf(rec.Value)})
	f.changes.Add(key)
	return nil
}

// Seq returns the highest sequence number of a name that is remembered, 0 if none is.
func (f *Floors) Seq(n name.Name) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, _ := f.lru.Get(n.Digest())
	return old.Seq
}

func sumOf(v name.Value) []byte {
	sum := sha256.Sum256([]byte(v.String()))
	return sum[:]
}

// Path implements [persist.Table].
func (*Floors) Path(key Key) ds.Key { return Table{}.Path(key) }

// ParsePath implements [persist.Table].
func (*Floors) ParsePath(path string) (Key, error) { return Table{}.ParsePath(path) }

// Keys implements [persist.Table].
func (f *Floors) Keys() []Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lru.Keys()
}

// Values implements [persist.Table].
func (f *Floors) Values(keys []Key) (map[Key][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	values := make(map[Key][]byte, len(keys))
	for _, key := range keys {
		old, ok := f.lru.Peek(key)
		if !ok {
			continue
		}
		value, err := canonical.Marshal(old)
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, nil
}

// Restore implements [persist.Table].
func (f *Floors) Restore(_ context.Context, key Key, value []byte) error {
	var old floor
	if err := canonical.Unmarshal(value, &old); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrRefused, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now, ok := f.lru.Peek(key); !ok || now.Seq < old.Seq {
		f.lru.Add(key, old)
	}
	return nil
}

// TakeChanges implements [persist.Table].
func (f *Floors) TakeChanges() (changed []Key, dropped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes.Take()
}

// MarkChanged implements [persist.Table].
func (f *Floors) MarkChanged(keys ...Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		f.changes.Add(key)
	}
}
