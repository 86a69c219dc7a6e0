package seeds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

// The keys of the stored values, each deterministic CBOR.
var (
	markKey  = datastore.NewKey("/seeds/manifest")
	triesKey = datastore.NewKey("/seeds/tries")
	knownKey = datastore.NewKey("/seeds/known")
)

type wireMark struct {
	Seq    uint64 `cbor:"1,keyasint"`
	Signer []byte `cbor:"2,keyasint"`
	Digest []byte `cbor:"3,keyasint"`
}

type wireTries struct {
	ID          []byte `cbor:"1,keyasint"`
	LastSuccess uint64 `cbor:"2,keyasint"` // seconds since 1970; 0: never
	Tries       uint64 `cbor:"3,keyasint"`
}

type wireKnown struct {
	ID    []byte   `cbor:"1,keyasint"`
	Seen  uint64   `cbor:"2,keyasint"` // seconds since 1970
	Addrs [][]byte `cbor:"3,keyasint"`
}

// stored is the state in the datastore.
type stored struct {
	in          datastore.Datastore // nil: the state is in memory only
	values      map[datastore.Key][]byte
	loaded      bool
	unwritten   bool   // the last write failed
	replacement uint64 // last value of Deps.Replacements
}

// load reads what an earlier process stored. It skips a value that cannot be read or decoded.
func (b *Bootstrapper) load(ctx context.Context) {
	if b.stored.in == nil || b.stored.loaded {
		return
	}
	b.stored.loaded = true
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := time.Now()
	for _, v := range []struct {
		key  datastore.Key
		take func([]byte) error
	}{
		{markKey, b.takeMark},
		{triesKey, func(p []byte) error { return b.takeTries(p, now) }},
		{knownKey, func(p []byte) error { return b.takeKnown(p, now) }},
	} {
		p, err := b.stored.fetch(ctx, v.key)
		if err == nil && p != nil {
			b.stored.values[v.key] = p // a value that cannot be decoded is overwritten
			err = v.take(p)
		}
		if err != nil {
			b.m.storage.WithLabelValues("read").Inc()
			b.log.Warn("cannot read stored state of the network; starting without it", "key", v.key, "error", err)
		}
	}
}

// fetch reads one value. It returns nil if there is none.
func (s *stored) fetch(ctx context.Context, key datastore.Key) ([]byte, error) {
	size, err := s.in.GetSize(ctx, key)
	if errors.Is(err, datastore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if size > maxStored {
		return nil, fmt.Errorf("value has %d bytes, more than %d", size, maxStored)
	}
	return s.in.Get(ctx, key)
}

// takeMark restores the mark. It ignores a mark whose signer is no longer an authority, because
// other authorities need not continue its sequence numbers.
func (b *Bootstrapper) takeMark(p []byte) error {
	k, err := decodeMark(p)
	if err == nil && slices.Contains(b.trusted, k.signer) {
		b.mark = k
	}
	return err
}

func decodeMark(p []byte) (mark, error) {
	var w wireMark
	if err := canonical.Unmarshal(p, &w); err != nil {
		return mark{}, err
	}
	signer, err := parseID(w.Signer)
	if err != nil {
		return mark{}, err
	}
	k := mark{seq: w.Seq, signer: signer}
	if len(w.Digest) != len(k.digest) {
		return mark{}, fmt.Errorf("digest has %d bytes", len(w.Digest))
	}
	k.digest = b3.Root(w.Digest)
	return k, nil
}

func encodeMark(k mark) ([]byte, error) {
	return canonical.Marshal(wireMark{k.seq, []byte(k.signer), k.digest[:]})
}

// takeTries restores the state of seeds. The state of a seed that is in no list after the first
// round is deleted.
func (b *Bootstrapper) takeTries(p []byte, now time.Time) error {
	tries, err := decodeTries(p, now)
	if err != nil {
		return err
	}
	for id, st := range tries {
		b.update(id, func(s *seedState) { s.lastSuccess, s.tries = st.lastSuccess, st.tries })
	}
	return nil
}

func decodeTries(p []byte, now time.Time) (map[peer.ID]seedState, error) {
	var ws []wireTries
	if err := canonical.Unmarshal(p, &ws); err != nil {
		return nil, err
	}
	tries := make(map[peer.ID]seedState, len(ws))
	for _, w := range ws {
		id, err := parseID(w.ID)
		if err != nil {
			return nil, err
		}
		at, err := parseTime(w.LastSuccess)
		if err != nil {
			return nil, err
		}
		if w.Tries > math.MaxInt32 {
			return nil, fmt.Errorf("number of tries is %d", w.Tries)
		}
		st := seedState{tries: int(w.Tries)}
		if w.LastSuccess > 0 && !at.After(now) {
			st.lastSuccess = at
		}
		tries[id] = st
	}
	return tries, nil
}

func encodeTries(list []seed, state map[peer.ID]seedState) ([]byte, error) {
	ws := []wireTries{}
	for _, s := range list {
		st := state[s.ID]
		if st.lastSuccess.IsZero() && st.tries == 0 {
			continue
		}
		w := wireTries{ID: []byte(s.ID), Tries: uint64(min(st.tries, math.MaxInt32))}
		if !st.lastSuccess.IsZero() {
			w.LastSuccess = uint64(st.lastSuccess.Unix())
		}
		ws = append(ws, w)
	}
	return canonical.Marshal(ws)
}

// takeKnown restores the remembered peers that are fresh.
func (b *Bootstrapper) takeKnown(p []byte, now time.Time) error {
	peers, err := decodeKnown(p)
	if err != nil {
		return err
	}
	next := merge(peers, nil, map[peer.ID]bool{b.deps.Self: true}, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = next
	return nil
}

func decodeKnown(p []byte) ([]known, error) {
	var ws []wireKnown
	if err := canonical.Unmarshal(p, &ws); err != nil {
		return nil, err
	}
	if len(ws) > maxKnown {
		return nil, fmt.Errorf("%d peers, more than %d", len(ws), maxKnown)
	}
	var peers []known
	for i, w := range ws {
		id, err := parseID(w.ID)
		if err != nil {
			return nil, err
		}
		if i > 0 && bytes.Compare(ws[i-1].ID, w.ID) >= 0 {
			return nil, fmt.Errorf("peer %s is out of order", id)
		}
		addrs, err := parseAddrs(w.Addrs, maxKnownAddrs)
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", id, err)
		}
		seen, err := parseTime(w.Seen)
		if err != nil {
			return nil, err
		}
		peers = append(peers, known{peer.AddrInfo{ID: id, Addrs: addrs}, seen})
	}
	return peers, nil
}

func encodeKnown(peers []known) ([]byte, error) {
	ws := []wireKnown{}
	for _, k := range peers {
		ws = append(ws, wireKnown{[]byte(k.ID), uint64(k.seen.Unix()), addrBytes(k.Addrs)})
	}
	return canonical.Marshal(ws)
}

// store writes changed values. A failed write is tried again at the next call. After ctx has
// ended it does nothing; Run then stores once more.
func (b *Bootstrapper) store(ctx context.Context) {
	if b.stored.in == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	b.renew(ctx)
	b.mu.Lock()
	tries, terr := encodeTries(b.list, b.state)
	b.mu.Unlock()
	peers, perr := encodeKnown(b.remembered())
	err := errors.Join(terr, b.stored.write(ctx, triesKey, tries), perr, b.stored.write(ctx, knownKey, peers))
	if b.mark.signer != "" {
		k, kerr := encodeMark(b.mark)
		err = errors.Join(err, kerr, b.stored.write(ctx, markKey, k))
	}
	if err == nil {
		b.stored.unwritten = false
		return
	}
	b.m.storage.WithLabelValues("write").Inc()
	if !b.stored.unwritten {
		b.stored.unwritten = true
		b.log.Warn("cannot store the state of the network: a restart would begin with the seeds only", "error", err)
	}
}

// renew makes store write everything again if the datastore was replaced. A higher mark in the
// new datastore is kept.
func (b *Bootstrapper) renew(ctx context.Context) {
	if b.deps.Replacements == nil {
		return
	}
	n := b.deps.Replacements()
	if n == b.stored.replacement {
		return
	}
	b.stored.replacement = n
	clear(b.stored.values)
	p, err := b.stored.fetch(ctx, markKey)
	if err != nil || p == nil {
		return // store overwrites it
	}
	own := b.mark
	if b.takeMark(p) == nil && own.signer != "" && own.seq >= b.mark.seq {
		b.mark = own
	}
}

// emptyList is a CBOR array of no elements. It is not worth a first write.
var emptyList = []byte{0x80}

// write writes one value if the datastore has a different one.
func (s *stored) write(ctx context.Context, key datastore.Key, value []byte) error {
	old, ok := s.values[key]
	if value == nil || bytes.Equal(old, value) || !ok && bytes.Equal(value, emptyList) {
		return nil
	}
	err := s.in.Put(ctx, key, value)
	if err == nil {
		err = s.in.Sync(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	s.values[key] = value
	return nil
}
