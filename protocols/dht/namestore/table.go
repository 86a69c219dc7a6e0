package namestore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"

	"allium/protocols/dht/persist"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
)

// Table is a store as a [persist.Table].
type Table struct {
	*Store
	// Verify verifies an envelope and checks it at the current time.
	Verify func(ctx context.Context, envelope []byte) (name.Signed, error)
	// Now is the clock that decides whether records have expired.
	Now func() time.Time
}

// NewTable returns s as a table whose changes are collected from now on. It must be called
// before s is used.
func NewTable(s *Store, verify func(context.Context, []byte) (name.Signed, error), now func() time.Time) Table {
	s.changes = persist.NewChanges[Key]()
	return Table{Store: s, Verify: verify, Now: now}
}

// stored is the form of an entry in the datastore.
type stored struct {
	_         struct{} `cbor:",toarray"`
	Envelopes [][]byte
	Group     []byte
}

// canonical encodes stored entries. 16 is the least limit of a codec.
var canonical = record.NewCodec(16)

// Path implements [persist.Table].
func (Table) Path(key Key) ds.Key { return ds.RawKey("/" + hex.EncodeToString(key[:])) }

// ParsePath implements [persist.Table].
func (t Table) ParsePath(path string) (key Key, err error) {
	p, err := hex.DecodeString(strings.TrimPrefix(path, "/"))
	copy(key[:], p)
	if err != nil || t.Path(key).String() != path {
		return Key{}, fmt.Errorf("%q is no key of a name record", path)
	}
	return key, nil
}

// Keys implements [persist.Table].
func (t Table) Keys() []Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]Key, 0, len(t.held))
	for key := range t.held {
		keys = append(keys, key)
	}
	return keys
}

// Values implements [persist.Table].
func (t Table) Values(keys []Key) (map[Key][]byte, error) {
	return encode(t.stored(keys))
}

// encode returns the bytes of stored entries.
func encode[V stored | floor](entries map[Key]V) (map[Key][]byte, error) {
	values := make(map[Key][]byte, len(entries))
	for key, e := range entries {
		value, err := canonical.Marshal(e)
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, nil
}

// stored returns the stored form of the entries that the store has of keys.
func (t Table) stored(keys []Key) map[Key]stored {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[Key]stored, len(keys))
	for _, key := range keys {
		e := t.held[key]
		if e == nil {
			continue
		}
		v := stored{Group: []byte(e.group.name)}
		for _, r := range e.v.Records() {
			v.Envelopes = append(v.Envelopes, r.Envelope)
		}
		found[key] = v
	}
	return found
}

// Restore implements [persist.Table].
func (t Table) Restore(ctx context.Context, key Key, value []byte) error {
	refuse := func(err error) error { return fmt.Errorf("%w: %w", persist.ErrRefused, err) }
	var v stored
	if err := canonical.Unmarshal(value, &v); err != nil {
		return refuse(err)
	}
	if len(v.Envelopes) == 0 || len(v.Envelopes) > 2 {
		return refuse(fmt.Errorf("it has %d records", len(v.Envelopes)))
	}
	for _, envelope := range v.Envelopes {
		r, err := t.Verify(ctx, envelope)
		if err == nil && r.Name.Digest() != key {
			err = status.Errorf(status.BadRequest, "the record is of another name")
		}
		switch status.Of(err) {
		case status.OK:
		case status.Busy, status.Timeout, status.Canceled:
			return err
		default:
			return refuse(err)
		}
		switch err := t.restore(r, string(v.Group), t.Now()); status.Of(err) {
		case status.OK, status.Equivocation, status.Stale: // a newer record may have arrived already
		default:
			return refuse(err)
		}
	}
	return nil
}

// TakeChanges implements [persist.Table].
func (t Table) TakeChanges() (changed []Key, dropped int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes.Take()
}

// MarkChanged implements [persist.Table].
func (t Table) MarkChanged(keys ...Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes.Add(keys...)
}
