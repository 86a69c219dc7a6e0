package name

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/record"
	"allium/protocols/status"
)

// Map gives zones short names. Somebody whom the reader trusts signs it.
type Map struct {
	Seq      uint64    // of two maps of a signer, the one with the higher number is in force
	NotAfter time.Time // end, in whole seconds; at most MaxMapLife from now
	Entries  []Entry   // 1 to MaxMapEntries, in the byte order of their short names
}

// Entry is a short name of a zone.
type Entry struct {
	Short Label // see [ParseShort]
	Zone  Zone
}

// mapKind is the record kind of zone maps. The text form is a PEM block of type mapBlock.
var mapKind = record.KindOf("zonemap")

const mapBlock = "ALLIUM ZONE MAP"

// canonicalMap encodes zone maps.
var canonicalMap = record.NewCodec(MaxMapEntries)

// wireMap is the signed payload.
type wireMap struct {
	Seq      uint64      `cbor:"1,keyasint"`
	NotAfter uint64      `cbor:"2,keyasint"` // seconds since 1970
	Entries  []wireEntry `cbor:"3,keyasint"`
}

type wireEntry struct {
	Short string `cbor:"1,keyasint"`
	Zone  []byte `cbor:"2,keyasint"` // binary peer ID
}

// NewMap returns a map with the entries in their order. It refuses what [VerifyMap] would refuse,
// so two short names that look alike are a *[ConfusableError]; other errors are bad_request.
func NewMap(seq uint64, notAfter time.Time, entries []Entry) (Map, error) {
	sorted := slices.SortedFunc(slices.Values(entries),
		func(a, b Entry) int { return cmp.Compare(a.Short.s, b.Short.s) })
	m := Map{Seq: seq, NotAfter: notAfter.Truncate(time.Second).UTC(), Entries: sorted}
	if err := m.check(); err != nil {
		if confusable := (*ConfusableError)(nil); errors.As(err, &confusable) {
			return Map{}, err
		}
		return Map{}, status.Errorf(status.BadRequest, "not a zone map: %w", err)
	}
	return m, nil
}

// Lookup returns the zone with the given short name.
func (m Map) Lookup(short Label) (Zone, bool) {
	i, ok := slices.BinarySearchFunc(m.Entries, short,
		func(e Entry, s Label) int { return cmp.Compare(e.Short.s, s.s) })
	if !ok {
		return Zone{}, false
	}
	return m.Entries[i].Zone, true
}

// SignMap returns m signed with key, as text for a file. It refuses a map that no node would
// accept at now: bad_request, conflict for short names that look alike, or body_cap if it is
// too large.
func SignMap(key crypto.PrivKey, m Map, now time.Time) ([]byte, error) {
	m, err := NewMap(m.Seq, m.NotAfter, m.Entries)
	if err != nil {
		return nil, err
	}
	if err := m.CheckLife(now); err != nil {
		return nil, err
	}
	w := wireMap{Seq: m.Seq, NotAfter: uint64(m.NotAfter.Unix()), Entries: make([]wireEntry, len(m.Entries))}
	for i, e := range m.Entries {
		w.Entries[i] = wireEntry{Short: e.Short.s, Zone: []byte(e.Zone.ID())}
	}
	payload, err := canonicalMap.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode the zone map: %w", err)
	}
	raw, err := mapKind.Seal(key, payload)
	if err != nil {
		return nil, fmt.Errorf("sign the zone map: %w", err)
	}
	if len(raw) > MaxMapEnvelope {
		return nil, mapTooLarge(len(raw))
	}
	return record.EncodeText(mapBlock, raw), nil
}

// VerifyMap verifies the text that [SignMap] returned, and returns the map and its signer. The caller
// checks both that the signer is the right one and [Map.CheckLife]. The error is
//
//   - body_cap: the text is longer than that of any map;
//   - bad_frame: it is not exactly one PEM block of the right type;
//   - bad_signature: it is not signed, or signed as another type;
//   - bad_request: it is signed but violates a bound;
//   - conflict: two of its short names look alike.
func VerifyMap(text []byte) (Map, peer.ID, error) {
	raw, err := record.DecodeText(mapBlock, text, MaxMapText)
	switch {
	case errors.Is(err, record.ErrTextLong):
		return Map{}, "", status.Errorf(status.BodyCap, "the zone map is longer than %d bytes", MaxMapText)
	case err != nil:
		return Map{}, "", status.Errorf(status.BadFrame, "the file is no zone map: "+
			"it must be one block from -----BEGIN %s----- to its END, and nothing else", mapBlock)
	case len(raw) > MaxMapEnvelope:
		return Map{}, "", mapTooLarge(len(raw))
	}
	payload, key, err := mapKind.Open(raw)
	switch {
	case errors.Is(err, record.ErrUnsigned):
		return Map{}, "", status.Errorf(status.BadSignature, "the zone map is not signed: %w", err)
	case errors.Is(err, record.ErrType):
		return Map{}, "", status.Errorf(status.BadSignature, "the signed content is not a zone map: %w", err)
	case err != nil:
		return Map{}, "", status.Errorf(status.BadSignature, "the zone map's signature is invalid: %w", err)
	}
	signer, err := peer.IDFromPublicKey(key)
	if err != nil {
		return Map{}, "", status.Errorf(status.BadSignature, "the zone map's key has no peer id: %w", err)
	}
	m, err := decodeMap(payload)
	if err != nil {
		if confusable := (*ConfusableError)(nil); errors.As(err, &confusable) {
			return Map{}, "", status.Errorf(status.Conflict, "the zone map has short names that look alike: %w", err)
		}
		return Map{}, "", status.Errorf(status.BadRequest, "the zone map is malformed: %w", err)
	}
	return m, signer, nil
}

func mapTooLarge(n int) error {
	return status.Errorf(status.BodyCap, "the zone map has %d bytes, more than %d", n, MaxMapEnvelope)
}

// decodeMap returns the map of a payload.
func decodeMap(payload []byte) (Map, error) {
	var w wireMap
	if err := canonicalMap.Unmarshal(payload, &w); err != nil {
		return Map{}, err
	}
	if w.NotAfter > math.MaxInt64/2 {
		return Map{}, fmt.Errorf("not_after is %d", w.NotAfter)
	}
	m := Map{Seq: w.Seq, NotAfter: time.Unix(int64(w.NotAfter), 0).UTC(), Entries: make([]Entry, len(w.Entries))}
	for i, e := range w.Entries {
		short, err := ParseLabel(e.Short)
		if err == nil && short.s != e.Short {
			err = fmt.Errorf("%q is not in normal form, which is %q", clip(e.Short), short.s)
		}
		if err != nil {
			return Map{}, err
		}
		zone, err := zoneFromID(string(e.Zone))
		if err != nil {
			return Map{}, fmt.Errorf("the key of %q: %w", short.s, err)
		}
		m.Entries[i] = Entry{Short: short, Zone: zone}
	}
	return m, m.check()
}

// check checks the bounds and the order of a map.
func (m Map) check() error {
	if m.NotAfter.Unix() < 0 {
		return errors.New("it ends before 1970")
	}
	if len(m.Entries) == 0 || len(m.Entries) > MaxMapEntries {
		return fmt.Errorf("it has %d entries, not 1 to %d", len(m.Entries), MaxMapEntries)
	}
	var spellings Spellings
	for i, e := range m.Entries {
		if e.Short.IsZero() || e.Zone.IsZero() {
			return fmt.Errorf("entry %d is not complete", i+1)
		}
		if err := checkShort(e.Short); err != nil {
			return err
		}
		if i > 0 && e.Short.s <= m.Entries[i-1].Short.s {
			return fmt.Errorf("%q is there twice or out of order", e.Short.s)
		}
		if err := spellings.Add(e.Short); err != nil {
			return err
		}
	}
	return nil
}

// CheckLife returns bad_request if the map ends too late, and stale if it has expired.
func (m Map) CheckLife(now time.Time) error {
	switch {
	case m.NotAfter.After(now.Add(MaxMapLife + ClockSkew)):
		return status.Errorf(status.BadRequest, "the zone map ends at %s, more than a year from now",
			m.NotAfter.Format(time.RFC3339))
	case !m.NotAfter.After(now):
		return status.Errorf(status.Stale,
			"the zone map expired at %s: have the signer sign a new one and replace the file",
			m.NotAfter.Format(time.RFC3339))
	}
	return nil
}
