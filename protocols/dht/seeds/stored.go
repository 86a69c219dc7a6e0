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

// What outlives the process, each as deterministic CBOR.
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

// load takes over what an earlier process stored. What cannot be read or
// understood is left out: the node starts without it.
func (b *Bootstrapper) load(ctx context.Context) {
	if b.deps.Datastore == nil || b.loaded {
		return
	}
	b.loaded = true
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
		p, err := b.fetch(ctx, v.key)
		if err == nil && p != nil {
			b.stored[v.key] = p // what cannot be understood is written over
			err = v.take(p)
		}
		if err != nil {
			b.m.storage.WithLabelValues("read").Inc()
			b.log.Warn("what was remembered of the network is not used: it cannot be read", "key", v.key, "error", err)
		}
	}
}

// fetch reads one value; nil: there is none.
func (b *Bootstrapper) fetch(ctx context.Context, key datastore.Key) ([]byte, error) {
	size, err := b.deps.Datastore.GetSize(ctx, key)
	if errors.Is(err, datastore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if size > maxStored {
		return nil, fmt.Errorf("%d bytes, more than %d", size, maxStored)
	}
	return b.deps.Datastore.Get(ctx, key)
}

// takeMark takes over the highest manifest accepted, unless its signer is no
// authority any more: then its sequence number binds nobody.
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
		return mark{}, fmt.Errorf("a digest of %d bytes", len(w.Digest))
	}
	k.digest = b3.Root(w.Digest)
	return k, nil
}

func encodeMark(k mark) ([]byte, error) {
	return canonical.Marshal(wireMark{k.seq, []byte(k.signer), k.digest[:]})
}

// takeTries takes over how seeds did. Those that are in no list by the end of
// the first round are forgotten.
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
			return nil, fmt.Errorf("%d tries", w.Tries)
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

// takeKnown takes over the remembered peers that are fresh.
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

// store writes what has changed. What cannot be written is tried again the next
// time. When ctx has ended, Run has it written once more.
func (b *Bootstrapper) store(ctx context.Context) {
	if b.deps.Datastore == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	b.renew(ctx)
	b.mu.Lock()
	tries, terr := encodeTries(b.list, b.state)
	b.mu.Unlock()
	peers, perr := encodeKnown(b.remembered())
	err := errors.Join(terr, b.write(ctx, triesKey, tries), perr, b.write(ctx, knownKey, peers))
	if b.mark.signer != "" {
		k, kerr := encodeMark(b.mark)
		err = errors.Join(err, kerr, b.write(ctx, markKey, k))
	}
	if err == nil {
		b.unwritten = false
		return
	}
	b.m.storage.WithLabelValues("write").Inc()
	if !b.unwritten {
		b.unwritten = true
		b.log.Warn("what is known of the network is not stored: a restart would begin with the seeds alone", "error", err)
	}
}

// renew has everything written again to a datastore that is another one. What
// that has of the manifest still counts when it is higher.
func (b *Bootstrapper) renew(ctx context.Context) {
	if b.deps.Renewed == nil {
		return
	}
	n := b.deps.Renewed()
	if n == b.renewed {
		return
	}
	b.renewed = n
	clear(b.stored)
	p, err := b.fetch(ctx, markKey)
	if err != nil || p == nil {
		return // it is written over
	}
	own := b.mark
	if b.takeMark(p) == nil && own.signer != "" && own.seq >= b.mark.seq {
		b.mark = own
	}
}

// emptyList is what is not worth a first write.
var emptyList = []byte{0x80} // an array of no tries

// write writes one value if the datastore has another.
func (b *Bootstrapper) write(ctx context.Context, key datastore.Key, value []byte) error {
	old, ok := b.stored[key]
	if value == nil || bytes.Equal(old, value) || !ok && bytes.Equal(value, emptyList) {
		return nil
	}
	err := b.deps.Datastore.Put(ctx, key, value)
	if err == nil {
		err = b.deps.Datastore.Sync(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	b.stored[key] = value
	return nil
}
