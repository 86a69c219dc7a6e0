package object

import (
	"bytes"
	"encoding/binary"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// FuzzAnswer feeds the client's decoder a stream of frames that a fuzzer made
// of honest ones: whatever comes, every byte that reaches the sink is a byte of
// the object at its place, an object is complete only with all of them, and
// nothing panics.
func FuzzAnswer(f *testing.F) {
	data := testData(3*b3.GroupSize+100, 1)
	root := b3.Sum(data)
	missing := b3.Sum([]byte("missing"))
	wire := func(frames []oap.Frame) (p []byte) {
		for _, fr := range frames {
			raw, _ := EncodeFrame(fr)
			p = append(p, raw...)
		}
		return p
	}
	answers := [][]byte{
		wire(honest(f, 1, nil, false, data)),
		wire(honest(f, 1, nil, true, data)),
		wire(honest(f, 1, []b3.Range{{Start: 70_000, End: 70_001}}, true, data)),
	}
	// A patch is 8 bytes: where (4), what (1), how (1: set, insert, delete,
	// repeat), how much (2).
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{})
	f.Add(uint8(2), []byte{})
	f.Add(uint8(0), []byte{0, 0, 1, 0, 7, 0, 0, 1})
	f.Add(uint8(1), []byte{0, 1, 0, 0, 7, 2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 9})
	f.Add(uint8(2), []byte{0, 0, 0, 9, 0xff, 0, 0, 1})
	f.Fuzz(func(t *testing.T, which uint8, patches []byte) {
		raw := bytes.Clone(answers[int(which)%len(answers)])
		for ; len(patches) >= 8 && len(raw) > 0 && len(raw) < 4<<20; patches = patches[8:] {
			at := int(binary.BigEndian.Uint32(patches)) % len(raw)
			n := min(int(binary.BigEndian.Uint16(patches[6:])), len(raw)-at)
			switch patches[5] % 4 {
			case 0:
				raw[at] = patches[4]
			case 1:
				raw = append(raw[:at:at], append(bytes.Repeat(patches[4:5], n), raw[at:]...)...)
			case 2:
				raw = append(raw[:at:at], raw[at+n:]...)
			case 3:
				raw = append(raw[:at+n:at+n], raw[at:]...)
			}
		}
		req := &GetRequest{Objs: []b3.Root{root, missing}}
		switch which % 3 {
		case 0:
			req.Objs = req.Objs[:1]
		case 1:
			req.Objs, req.SizeProof = req.Objs[:1], true
		case 2:
			req.Objs, req.SizeProof = req.Objs[:1], true
			req.Ranges = []b3.Range{{Start: 70_000, End: 70_001}}
		}
		if which > 128 {
			req = &GetRequest{Objs: []b3.Root{missing, root}}
		}
		s := &proving{t: t, root: root, data: data, seen: map[int64]bool{}}
		a := &getAnswer{req: req, sink: s, count: func(int) {}}
		r := oap.NewReader(bytes.NewReader(raw), oap.MaxFrame)
		var done bool
		var err error
		for !done && err == nil {
			var fr oap.Frame
			if fr, err = r.Next(); err == nil {
				done, err = a.frame(fr)
			}
		}
		_ = a.endObject(err)
		if s.open {
			t.Error("an object began and did not end")
		}
		if err == nil && s.ended != len(req.Objs) {
			t.Errorf("%d of %d objects ended", s.ended, len(req.Objs))
		}
		for i := range s.complete {
			want := int(b3.Groups(int64(len(data))))
			if len(req.Ranges) > 0 {
				want = 1
			}
			if req.Objs[i] == root && len(s.seen) < want {
				t.Errorf("complete with %d groups", len(s.seen))
			}
		}
	})
}

// proving is a sink that knows the truth.
type proving struct {
	t        *testing.T
	root     b3.Root
	data     []byte
	open     bool
	ended    int
	seen     map[int64]bool
	complete map[int]bool
}

func (s *proving) Begin(int, int64) error {
	if s.open {
		s.t.Error("an object begins inside another")
	}
	s.open = true
	return nil
}

func (s *proving) Item(_ int, p b3.Proved) error {
	if !s.open || !p.Valid() || p.Root() != s.root {
		s.t.Fatalf("an item of %s, valid %v, open %v", p.Root(), p.Valid(), s.open)
	}
	if p.SizeProved() && p.Size() != int64(len(s.data)) {
		s.t.Fatalf("%d is proved as the size", p.Size())
	}
	if p.IsParent() {
		return nil
	}
	end := p.Offset() + int64(len(p.Data()))
	if end > int64(len(s.data)) || !bytes.Equal(p.Data(), s.data[p.Offset():end]) {
		s.t.Fatalf("wrong bytes at %d", p.Offset())
	}
	s.seen[p.Group()] = true
	return nil
}

func (s *proving) End(i int, err error) error {
	s.open = false
	s.ended++
	if err == nil {
		if s.complete == nil {
			s.complete = map[int]bool{}
		}
		s.complete[i] = true
	}
	return nil
}

// FuzzQuery feeds the server's decoder any payload: it answers or refuses with
// an outcome of the request, and what it accepts is within bounds.
func FuzzQuery(f *testing.F) {
	root := b3.Sum(nil)
	f.Add([]byte(getOf(root)))
	f.Add([]byte(`{"op":"have","objs":["` + root.String() + `"]}`))
	f.Add([]byte(`{"op":"get","objs":["` + root.String() +
		`"],"ranges":[[0,-1],[5,9]],"size_proof":true,"deadline_ms":9007199254740991}`))
	f.Add([]byte(`{"op":"put","obj":1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		q, err := decodeQuery(p)
		if err != nil {
			if o := status.Of(err); !ofRequest(o) && o != status.BadRange {
				t.Errorf("%s: %v", o, err)
			}
			if code, payload := report(err); code < 400 || len(payload) > 4096 {
				t.Errorf("code %d, report of %d bytes", code, len(payload))
			}
			return
		}
		if len(q.objs) == 0 || len(q.objs) > MaxHave || q.op == opGet && len(q.objs) > MaxGet || q.timeout < 0 ||
			len(q.ranges) > 0 && len(q.objs) != 1 {
			t.Errorf("accepted %+v", q)
		}
		for _, r := range q.ranges {
			if r.Start < 0 || r.End < -1 || r.End >= 0 && r.End < r.Start {
				t.Errorf("accepted the range %v", r)
			}
		}
	})
}

// FuzzRemoteError feeds the client any status frame: the error never claims
// success, nor a bug of our own.
func FuzzRemoteError(f *testing.F) {
	f.Add(uint16(404), []byte(`{"reason":"not_found","message":"no"}`))
	f.Add(uint16(500), []byte(`{"reason":"ok"}`))
	f.Add(uint16(429), []byte(`{"reason":"busy","limit":"x","retry_after_ms":-1}`))
	f.Fuzz(func(t *testing.T, code uint16, p []byte) {
		err := remoteError(oap.Frame{Header: oap.Header{Code: code}, Payload: p})
		if o := status.Of(err); err == nil || o.Success() || o == status.Internal {
			t.Errorf("%d %q: %s", code, p, o)
		}
	})
}
