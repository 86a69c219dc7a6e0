package wire

import (
	"encoding/json"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// seeds are bodies of all messages.
func seeds(f *testing.F) (list [][]byte) {
	root := b3.Sum(nil)
	for _, v := range []any{
		challengeWire{[]slice{{Root: root[:], Chunk: 0}, {Root: root[:], Chunk: 1 << 51}}},
		leaseWire{root[:]}, leaseWire{root[:31]}, challengeWire{}, grantWire{true},
		proofsWire{[]proof{{Answer: 1, Proof: []byte("p")}, {Answer: 3}}},
		tellWire{[]toldWire{toWire(fullList(f, 1)[0]), toWire(plan.Told{Root: root})}},
		tellWire{[]toldWire{{Root: root[:], Holders: [][]byte{{1}}}}},
		tellWire{[]toldWire{{Root: root[:], Targets: []targetWire{{Copies: 1 << 63}}}}},
	} {
		p, err := encode(v)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, p)
	}
	return append(list, nil, []byte("\xa1\x01\x9f\xff"), []byte("\xa1\x18\x01\x80"),
		[]byte("\xa1\x01\x9b\xff\xff\xff\xff\xff\xff\xff\xff"))
}

// FuzzRequest: a body is refused with bad_request, or what it says is within the bounds and has this
// one encoding.
func FuzzRequest(f *testing.F) {
	for _, p := range seeds(f) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > MaxBody {
			return
		}
		for _, op := range []string{opChallenge, opTell, opLease} {
			payload, err := json.Marshal(sentRequest{Op: op, Body: bodyText.EncodeToString(p)})
			if err != nil {
				t.Fatal(err)
			}
			r := &session.Request{Payload: payload}
			if err := oap.DecodeJSON(payload, &r.Envelope, true); err != nil {
				t.Fatal(err)
			}
			switch op {
			case opChallenge:
				roots, chunks, e := decodeChallenge(r)
				if err = e; err == nil && (len(roots) < 1 || len(roots) > plan.MaxBatch || len(roots) != len(chunks)) {
					t.Errorf("%x: %d objects, %d chunks", p, len(roots), len(chunks))
				}
			case opLease:
				_, err = decodeLease(r)
			case opTell:
				var list []plan.Told
				if list, err = decodeTell(r); err == nil {
					checkTold(t, p, list)
				}
			}
			if err != nil && status.Of(err) != status.BadRequest {
				t.Errorf("%s %x: %v", op, p, err)
			}
		}
	})
}

// checkTold checks that what was decoded is within the bounds and encodes to p again.
func checkTold(t *testing.T, p []byte, list []plan.Told) {
	t.Helper()
	var w tellWire
	for _, o := range list {
		if len(o.Asked) > plan.MaxTargets || len(o.Holders) > plan.MaxSeen {
			t.Errorf("%d targets, %d holders", len(o.Asked), len(o.Holders))
		}
		w.Objects = append(w.Objects, toWire(o))
	}
	again, err := encode(w)
	if err != nil || string(again) != string(p) {
		t.Errorf("%x is encoded as %x: %v", p, again, err)
	}
}

// FuzzAnswer: an answer is refused as upstream, or the client's answers are those it knows.
func FuzzAnswer(f *testing.F) {
	for _, p := range seeds(f) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		c, w, _ := newPair(t)
		c.deps.Call = canned(p)
		roots := []b3.Root{b3.Sum(nil), {1}}
		got, err := c.Challenge(t.Context(), w.from, roots[:1])
		if err != nil && status.Of(err) != status.Upstream ||
			err == nil && (len(got) != 1 || got[0].Answer > plan.Absent) {
			t.Errorf("%x: %v, %v", p, got, err)
		}
		list, err := c.Tell(t.Context(), w.from, []plan.Told{{Root: roots[0]}})
		if err != nil && status.Of(err) != status.Upstream || err == nil && len(list) != 1 {
			t.Errorf("%x: %v, %v", p, list, err)
		}
		if _, err := c.Lease(t.Context(), w.from, roots[0]); err != nil && status.Of(err) != status.Upstream {
			t.Errorf("%x: %v", p, err)
		}
	})
}
