package hints

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// SyncID is the protocol of comparisons (protocols/oap/SPEC.md §12).
const SyncID = protocol.ID("/allium/sync/1.0.0")

// Bounds of a comparison, fixed by its protocol.
const (
	buckets    = 256      // groups of announcements that are compared
	maxMessage = 64 << 10 // bytes
	maxIDs     = 2048     // in an answer
	maxWants   = 1024     // announcements each way
	maxItems   = 256      // of them in one message
	maxBytes   = 4 << 20  // of them each way
	maxReason  = 64       // bytes
)

// offer begins a comparison. It holds a fingerprint for each of the 256 buckets.
type offer struct {
	Salt   uint64 `cbor:"0,keyasint"`
	Prints []byte `cbor:"1,keyasint"` // 8 bytes for each bucket
}

// answer names the buckets that differ and the IDs that the other side has in them. Code is of the
// OAP column of SPEC §3. Reason is its outcome, empty for 200. An answer without a bucket ends the
// comparison.
type answer struct {
	Code    uint64 `cbor:"0,keyasint"`
	Buckets []byte `cbor:"1,keyasint"` // 32 bytes: a bit for each bucket, highest bit of a byte first
	IDs     []byte `cbor:"2,keyasint"` // 16 bytes each
	Reason  string `cbor:"3,keyasint"`
}

// batch carries announcements. The first batch of each side also names the IDs that the side wants;
// that of the requesting side names those that it has beyond the answer. Last marks the last batch.
type batch struct {
	Last  bool     `cbor:"0,keyasint"`
	Wants []byte   `cbor:"1,keyasint"` // 16 bytes each
	Has   []byte   `cbor:"2,keyasint"` // 16 bytes each
	Items [][]byte `cbor:"3,keyasint"`
}

func decodeOffer(p []byte) (o offer, err error) {
	if err = canonical.Unmarshal(p, &o); err == nil && len(o.Prints) != 8*buckets {
		err = errors.New("not 256 fingerprints")
	}
	return o, wrong(err)
}

// decodeAnswer decodes an answer. It also returns the error that an answer reports.
func decodeAnswer(p []byte) (a answer, err error) {
	err = canonical.Unmarshal(p, &a)
	switch {
	case err != nil:
	case a.Code < 100 || a.Code > 599 || len(a.Reason) > maxReason:
		err = errors.New("no outcome")
	case a.Code >= 300:
		o, ok := status.Parse(a.Reason)
		if !ok || o.Success() {
			o = status.FromCode(int(a.Code))
		}
		return a, status.Errorf(o, "announce: the peer answered %d", a.Code)
	case len(a.Buckets) != buckets/8:
		err = errors.New("not 256 buckets")
	default:
		err = checkIDs(a.IDs, maxIDs)
	}
	return a, wrong(err)
}

func decodeBatch(p []byte) (b batch, err error) {
	if err = canonical.Unmarshal(p, &b); err == nil {
		err = errors.Join(checkIDs(b.Wants, maxWants), checkIDs(b.Has, maxIDs))
	}
	return b, wrong(err)
}

func checkIDs(p []byte, limit int) error {
	if len(p)%len(id{}) != 0 || len(p) > limit*len(id{}) {
		return errors.New("no list of ids")
	}
	return nil
}

// wrong returns the error for a peer that violates the protocol.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(status.BadRequest, "announce: comparison: %w", err)
}

// refusal returns the answer to an offer that is not processed.
func refusal(err error) answer {
	o := status.Of(err)
	return answer{Code: uint64(o.Code()), Reason: o.String()}
}

func splitIDs(p []byte) []id {
	ids := make([]id, 0, len(p)/len(id{}))
	for ; len(p) > 0; p = p[len(id{}):] {
		ids = append(ids, id(p))
	}
	return ids
}

func joinIDs(ids []id) []byte {
	p := make([]byte, 0, len(ids)*len(id{}))
	for _, i := range ids {
		p = append(p, i[:]...)
	}
	return p
}

// digest is a set of IDs in buckets. The bucket of an ID and its part of the bucket's fingerprint
// depend on the salt of the comparison. So nobody can make announcements that fill one bucket or
// that cancel out.
type digest struct {
	salt    uint64
	prints  [buckets]uint64
	buckets [buckets][]id
}

func newDigest(salt uint64, ids []id) *digest {
	d := &digest{salt: salt}
	for _, i := range ids {
		n, print := place(salt, i)
		d.prints[n] ^= print
		d.buckets[n] = append(d.buckets[n], i)
	}
	return d
}

// place returns the bucket of an ID and its part of the fingerprint.
func place(salt uint64, i id) (bucket uint8, print uint64) {
	var in [8 + len(i)]byte
	binary.BigEndian.PutUint64(in[:], salt)
	copy(in[8:], i[:])
	sum := b3.Sum(in[:])
	return sum[0], binary.BigEndian.Uint64(sum[8:])
}

func (d *digest) offer() offer {
	o := offer{Salt: d.salt, Prints: make([]byte, 0, 8*buckets)}
	for _, p := range d.prints {
		o.Prints = binary.BigEndian.AppendUint64(o.Prints, p)
	}
	return o
}

// answer names the buckets that differ from an offer, starting at bucket first, as many as fit. A
// later comparison names the others.
func (d *digest) answer(o offer, first int) answer {
	a := answer{Code: uint64(status.OK.Code()), Buckets: make([]byte, buckets/8)}
	for i := range buckets {
		n := (first + i) % buckets
		ids := d.buckets[n]
		if binary.BigEndian.Uint64(o.Prints[8*n:]) == d.prints[n] || len(a.IDs)/len(id{})+len(ids) > maxIDs {
			continue
		}
		a.Buckets[n/8] |= 0x80 >> (n % 8)
		a.IDs = append(a.IDs, joinIDs(ids)...)
	}
	return a
}

// compare returns the IDs that only the other side has and those that only this side has, in the
// buckets that the answer names. It fails if the answer has IDs of other buckets.
func (d *digest) compare(a answer) (lacks, extra []id, err error) {
	named := func(n int) bool { return a.Buckets[n/8]&(0x80>>(n%8)) != 0 }
	theirs := make(map[id]bool, len(a.IDs)/len(id{}))
	for _, i := range splitIDs(a.IDs) {
		if n, _ := place(d.salt, i); !named(int(n)) {
			return nil, nil, wrong(errors.New("an id of another bucket"))
		}
		theirs[i] = true
	}
	mine := map[id]bool{}
	for n := range buckets {
		if !named(n) {
			continue
		}
		for _, i := range d.buckets[n] {
			mine[i] = true
			if !theirs[i] {
				extra = append(extra, i)
			}
		}
	}
	for _, i := range splitIDs(a.IDs) {
		if !mine[i] {
			lacks = append(lacks, i)
			mine[i] = true // once
		}
	}
	return lacks, extra, nil
}

// equal reports whether an answer names no bucket.
func (a answer) equal() bool {
	n := 0
	for _, b := range a.Buckets {
		n += bits.OnesCount8(b)
	}
	return n == 0
}
