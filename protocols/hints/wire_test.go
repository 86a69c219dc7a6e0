package hints

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// ids are n ids, from the first on.
func ids(first, n int) (out []id) {
	for i := range n {
		sum := b3.Sum(binary.BigEndian.AppendUint64(nil, uint64(first+i)))
		out = append(out, id(sum[:]))
	}
	return out
}

func less(a, b id) int { return bytes.Compare(a[:], b[:]) }

// TestCompareProperty: two sets find out, by way of the wire, what each lacks:
// all of it where the answer has room.
func TestCompareProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		common := rapid.IntRange(0, 3000).Draw(t, "common")
		onlyA, onlyB := rapid.IntRange(0, 300).Draw(t, "only a"), rapid.IntRange(0, 300).Draw(t, "only b")
		salt := rapid.Uint64().Draw(t, "salt")
		both := ids(0, common)
		extraA, extraB := ids(10_000, onlyA), ids(20_000, onlyB)
		a := newDigest(salt, append(slices.Clone(both), extraA...))
		b := newDigest(salt, append(slices.Clone(both), extraB...))
		raw, err := canonical.Marshal(a.offer())
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > maxMessage {
			t.Fatalf("an offer of %d bytes", len(raw))
		}
		o, err := decodeOffer(raw)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = canonical.Marshal(b.answer(o, rapid.IntRange(0, buckets-1).Draw(t, "first"))); err != nil ||
			len(raw) > maxMessage {
			t.Fatalf("an answer of %d bytes, %v", len(raw), err)
		}
		ans, err := decodeAnswer(raw)
		if err != nil {
			t.Fatal(err)
		}
		if ans.equal() != (onlyA+onlyB == 0) {
			t.Fatalf("equal: %v", ans.equal())
		}
		lacks, extra, err := a.compare(ans)
		if err != nil {
			t.Fatal(err)
		}
		if common < 1000 { // there is room for all of b in the answer
			slices.SortFunc(lacks, less)
			slices.SortFunc(extra, less)
			slices.SortFunc(extraA, less)
			slices.SortFunc(extraB, less)
			if !slices.Equal(lacks, extraB) || !slices.Equal(extra, extraA) {
				t.Fatalf("lacks %d of %d, has %d of %d more", len(lacks), onlyB, len(extra), onlyA)
			}
		}
		for _, i := range lacks {
			if !slices.Contains(extraB, i) {
				t.Fatal("it lacks what it has")
			}
		}
		for _, i := range extra {
			if !slices.Contains(extraA, i) {
				t.Fatal("it would send what both have")
			}
		}
	})
}

// TestAnswerKeepsToItsRoom: with more than fits the answer is of some buckets,
// not always the same.
func TestAnswerKeepsToItsRoom(t *testing.T) {
	d := newDigest(1, ids(0, 10*maxIDs))
	o := newDigest(1, nil).offer()
	first, other := d.answer(o, 0), d.answer(o, 128)
	for _, a := range []answer{first, other} {
		if n := len(a.IDs) / len(id{}); n > maxIDs || n < maxIDs/2 {
			t.Errorf("%d ids", n)
		}
		if _, _, err := newDigest(1, nil).compare(a); err != nil {
			t.Error(err)
		}
	}
	if bytes.Equal(first.Buckets, other.Buckets) {
		t.Error("the same buckets each time")
	}
}

// TestMostHeld: with as many announcements as may be held there is a bucket that
// can be named.
func TestMostHeld(t *testing.T) {
	const mostHeld = buckets * maxIDs / 2
	all := ids(0, mostHeld)
	if a := newDigest(7, all).answer(newDigest(7, nil).offer(), 0); a.equal() {
		t.Error("two that have nothing in common are told to be equal")
	}
	if DefaultConfig().MaxAnnouncements > mostHeld {
		t.Error("more may be held than can be compared")
	}
}

func TestDecodeRefusals(t *testing.T) {
	enc := func(v any) []byte {
		p, err := canonical.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ok := answer{Code: 200, Buckets: make([]byte, buckets/8)}
	for name, tc := range map[string]struct {
		err  error
		want status.Outcome
	}{
		"short prints": {second(decodeOffer(enc(offer{Prints: make([]byte, 8)}))), status.BadRequest},
		"no offer":     {second(decodeOffer([]byte("x"))), status.BadRequest},
		"no code":      {second(decodeAnswer(enc(answer{Buckets: ok.Buckets}))), status.BadRequest},
		"no buckets":   {second(decodeAnswer(enc(answer{Code: 200}))), status.BadRequest},
		"half an id": {
			second(decodeAnswer(enc(answer{Code: 200, Buckets: ok.Buckets, IDs: make([]byte, 8)}))), status.BadRequest,
		},
		"too many ids": {
			second(decodeAnswer(enc(answer{Code: 200, Buckets: ok.Buckets, IDs: make([]byte, 16*(maxIDs+1))}))),
			status.BadRequest,
		},
		"a long reason": {
			second(decodeAnswer(enc(answer{Code: 429, Reason: string(make([]byte, maxReason+1))}))), status.BadRequest,
		},
		"busy": {second(decodeAnswer(enc(refusal(status.Errorf(status.Busy, "full"))))), status.Busy},
		"rate": {second(decodeAnswer(enc(refusal(status.Errorf(status.RateLimit, "full"))))),
			status.RateLimit},
		"a reason of ok":  {second(decodeAnswer(enc(answer{Code: 503, Reason: "ok"}))), status.FromCode(503)},
		"too many wants":  {second(decodeBatch(enc(batch{Wants: make([]byte, 16*(maxWants+1))}))), status.BadRequest},
		"too much had":    {second(decodeBatch(enc(batch{Has: make([]byte, 16*(maxIDs+1))}))), status.BadRequest},
		"half a want":     {second(decodeBatch(enc(batch{Wants: make([]byte, 9)}))), status.BadRequest},
		"too many items":  {second(decodeBatch(enc(batch{Items: make([][]byte, maxItems+1)}))), status.BadRequest},
		"as many as fits": {second(decodeBatch(enc(batch{Items: make([][]byte, maxItems)}))), status.OK},
		"good":            {second(decodeAnswer(enc(ok))), status.OK},
	} {
		if status.Of(tc.err) != tc.want {
			t.Errorf("%s: %v, want %s", name, tc.err, tc.want)
		}
	}
	d := newDigest(3, ids(0, 10))
	lying := d.answer(newDigest(3, nil).offer(), 0)
	clear(lying.Buckets)
	lying.Buckets[0] = 1 // one bucket, ids of others
	if _, _, err := d.compare(lying); status.Of(err) != status.BadRequest {
		t.Errorf("ids of other buckets: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// FuzzDecode: what is taken encodes to the same bytes and can be worked with.
func FuzzDecode(f *testing.F) {
	add := func(v any) {
		p, err := canonical.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	mine := newDigest(7, ids(0, 50))
	add(mine.offer())
	add(mine.answer(newDigest(7, nil).offer(), 3))
	add(refusal(status.Errorf(status.Busy, "full")))
	add(batch{Last: true, Wants: joinIDs(ids(0, 3)), Items: [][]byte{{1, 2}, {}}})
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, p []byte) {
		if o, err := decodeOffer(p); err == nil {
			a := newDigest(o.Salt, ids(0, 20)).answer(o, 9)
			if raw, err := canonical.Marshal(a); err != nil || len(raw) > maxMessage {
				t.Fatalf("an answer of %d bytes, %v", len(raw), err)
			}
		}
		if a, err := decodeAnswer(p); err == nil {
			if lacks, _, err := mine.compare(a); err == nil && len(lacks) > maxIDs {
				t.Fatal("it lacks too many")
			}
		}
		if b, err := decodeBatch(p); err == nil && len(splitIDs(b.Wants)) > maxWants {
			t.Fatal("too many wants")
		}
	})
}
