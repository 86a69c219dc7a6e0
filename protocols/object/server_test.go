package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// asker is a client that says whatever a test wants.
type asker struct {
	t  testing.TB
	st network.Stream
	r  *oap.Reader
}

func (p *pair) ask(t testing.TB) *asker {
	t.Helper()
	st, err := p.net.Host(clientID).NewStream(t.Context(), serverID, ProtocolID)
	if err != nil {
		t.Fatal(err)
	}
	return &asker{t: t, st: st, r: oap.NewReader(st, oap.MaxFrame)}
}

func (a *asker) send(f oap.Frame) {
	a.t.Helper()
	raw, err := EncodeFrame(f)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.st.Write(raw); err != nil {
		a.t.Fatal(err)
	}
}

// want sends a whole request.
func (a *asker) want(corr uint64, payload string) {
	a.t.Helper()
	a.send(oap.Frame{
		Header:  oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd, Proto: oap.ProtoObject, CorrID: corr},
		Payload: []byte(payload),
	})
}

// end reads up to the next END and returns it with the bytes of items before.
func (a *asker) end() (f oap.Frame, items int) {
	a.t.Helper()
	for {
		f, err := a.r.Next()
		if err != nil {
			a.t.Fatal(err)
		}
		if f.Flags.Has(oap.FlagEnd) {
			return f, items
		}
		if f.Code == 0 && !f.Flags.Has(oap.FlagStart) {
			items += len(f.Payload)
		}
	}
}

// reset waits until the server resets the stream and returns the code.
func (a *asker) reset() network.StreamErrorCode {
	a.t.Helper()
	for {
		_, err := a.r.Next()
		var reset *network.StreamError
		if errors.As(err, &reset) {
			return reset.ErrorCode
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

func getOf(roots ...b3.Root) string {
	p, err := json.Marshal(wireGet{common: common{Op: opGet}, Objs: roots})
	if err != nil {
		panic(err)
	}
	return string(p)
}

// TestRefusals asks wrongly: each request has its own typed refusal and the
// stream lives.
func TestRefusals(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	many := func(n int) string { return `"` + strings.Repeat(root.String()+`","`, n-1) + root.String() + `"` }
	one := many(1)
	a := p.ask(t)
	for i, tc := range []struct {
		payload string
		code    uint16
		reason  string
	}{
		{`{"op":"get","objs":[` + one + `]}`, 200, ""},
		{`{"op":"get","objs":[` + many(MaxGet) + `]}`, 200, ""},
		{`{"op":"get","objs":[` + many(MaxGet+1) + `]}`, 400, "bad_request"},
		{`{"op":"get","objs":[]}`, 400, "bad_request"},
		{`{"op":"get"}`, 400, "bad_request"},
		{`{"op":"get","objs":["b3:00"]}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + many(2) + `],"ranges":[[0,1]]}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[0,1,2]]}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[2,1]]}`, 416, "bad_range"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[-1,1]]}`, 416, "bad_range"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[3,3],[0,-1]]}`, 200, ""},
		{`{"op":"get","objs":[` + one + `],"colour":"red"}`, 400, "bad_request"},
		{`{"op":"get","op":"get","objs":[` + one + `]}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `]}x`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `],"deadline_ms":-1}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `],"deadline_ms":5000,"traceparent":"00-x"}`, 200, ""},
		{`{"op":"put","obj":` + one + `,"size":3}`, 415, "unsupported"},
		{`{"op":"fly","to":"moon"}`, 415, "unsupported"},
		{`{}`, 415, "unsupported"},
		{`[]`, 400, "bad_request"},
		{``, 400, "bad_request"},
		{`{"op":"have","objs":[` + many(896) + `]}`, 200, ""},
		{`{"op":"have","objs":[` + many(897) + `]}`, 400, "bad_request"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[0,-2]]}`, 416, "bad_range"},
		{`{"op":"get","objs":[` + one + `],"ranges":[[-1,-1]]}`, 416, "bad_range"},
		{`{"op":"get","objs":[` + one + `],"ranges":[]}`, 200, ""},
		{`{"op":"get","objs":[` + one + `],"ranges":[[0,0]]}`, 200, ""},
		{`{"op":"get","objs":[` + one + `],"ranges":[[100,-1]]}`, 200, ""},
		{`{"op":"get","objs":[` + one + `],"ranges":[[100,200]],"size_proof":true}`, 200, ""},
		{`{"op":"get","objs":[` + one + `],"ranges":[[5,9007199254740992]]}`, 400, "bad_request"},
		{`{"op":"have","objs":[]}`, 400, "bad_request"},
		{`{"op":"have","objs":[` + one + `],"ranges":[]}`, 400, "bad_request"},
	} {
		a.want(uint64(i), tc.payload)
		f, _ := a.end()
		var r status.Report
		if f.Code != 200 {
			if err := oap.DecodeJSON(f.Payload, &r, false); err != nil {
				t.Errorf("%.60s: %v", tc.payload, err)
			}
		}
		if f.Code != tc.code || r.Reason != tc.reason || f.CorrID != uint64(i) {
			t.Errorf("%.60s: %d %s, want %d %s", tc.payload, f.Code, r.Reason, tc.code, tc.reason)
		}
	}
}

// TestBadFrames breaks the framing: some frames are answered, some reset the
// stream with their code.
func TestBadFrames(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	req := oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd, Proto: oap.ProtoObject, CorrID: 1}
	with := func(change func(*oap.Header)) oap.Frame {
		h := req
		change(&h)
		return oap.Frame{Header: h, Payload: []byte(getOf(root))}
	}
	for _, tc := range []struct {
		name   string
		f      oap.Frame
		reset  oap.Reason // or
		code   uint16
		reason string
	}{
		{"another protocol", with(func(h *oap.Header) { h.Proto = oap.ProtoIndex }), 0, 400, "bad_frame"},
		{"not the end", with(func(h *oap.Header) { h.Flags &^= oap.FlagEnd }), 0, 400, "bad_request"},
		{"encrypted", with(func(h *oap.Header) { h.Flags |= oap.FlagAppE2E }), 0, 415, "unsupported"},
		{"a capability", oap.Frame{Header: req, Cap: []byte("cap"), Payload: []byte(getOf(root))}, 0, 200, ""},
		{"not zstd", with(func(h *oap.Header) { h.Flags |= oap.FlagComp }), oap.ReasonInflateBound, 0, ""},
		{"not zstd, of another protocol",
			with(func(h *oap.Header) { h.Flags |= oap.FlagComp; h.Proto = oap.ProtoIndex }),
			oap.ReasonInflateBound, 0, ""},
		{"no start", with(func(h *oap.Header) { h.Flags = oap.FlagReq | oap.FlagEnd }), oap.ReasonBadFlags, 0, ""},
		{"a response", with(func(h *oap.Header) { h.Flags = oap.FlagResp }), oap.ReasonBadFlags, 0, ""},
		{"an event", with(func(h *oap.Header) { h.Flags = oap.FlagEvent | oap.FlagStart }), oap.ReasonBadFlags, 0, ""},
		{"an ack", with(func(h *oap.Header) { h.Flags = oap.FlagEvent | oap.FlagResp }),
			oap.ReasonCreditViolation, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := p.ask(t)
			a.send(tc.f)
			if tc.code == 0 {
				if code := a.reset(); code != network.StreamErrorCode(tc.reset.StreamErrorCode()) {
					t.Errorf("reset with %#x, want %s", code, tc.reset)
				}
				return
			}
			f, _ := a.end()
			var r status.Report
			if f.Code != 200 {
				_ = oap.DecodeJSON(f.Payload, &r, false)
			}
			if f.Code != tc.code || r.Reason != tc.reason {
				t.Errorf("%d %s, want %d %s", f.Code, r.Reason, tc.code, tc.reason)
			}
			a.want(2, getOf(root))
			if f, _ := a.end(); f.Code != 200 {
				t.Errorf("then %d", f.Code)
			}
		})
	}
}

// TestCompressedRequest sends a request under COMP.
func TestCompressedRequest(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	z, ok := oap.NewCodec(1).Compress(nil, []byte(getOf(slices.Repeat([]b3.Root{root}, 8)...)), oap.MaxFrame)
	if !ok {
		t.Fatal("the request does not compress")
	}
	a := p.ask(t)
	a.send(oap.Frame{
		Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd | oap.FlagComp, Proto: oap.ProtoObject,
			CorrID: 1},
		Payload: z,
	})
	if f, _ := a.end(); f.Code != 200 {
		t.Errorf("%d %s", f.Code, f.Payload)
	}
}

// TestPipelining sends requests without waiting for answers: they come whole
// and in order, whatever their sizes.
func TestPipelining(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	const requests = 20 // more than Pipeline
	a := p.ask(t)
	var sizes []int
	sent := make(chan struct{})
	var payloads []string
	for i := range requests {
		size := (i * 37 % 5) * b3.GroupSize / 2
		sizes = append(sizes, size)
		payloads = append(payloads, getOf(p.store.put(testData(size, uint64(i)))))
	}
	go func() {
		defer close(sent)
		for i, payload := range payloads {
			a.want(uint64(100+i), payload)
		}
	}()
	for i, size := range sizes {
		f, items := a.end()
		want := size + int(b3.OutboardSize(int64(size)))
		if f.CorrID != uint64(100+i) || f.Code != 200 || items != want {
			t.Fatalf("answer %d is corr_id %d, code %d, %d bytes, want %d", i, f.CorrID, f.Code, items, want)
		}
	}
	<-sent
}

// TestDuplicateCorr uses a corr_id that is in flight: dup_corr for the second,
// and the first is answered.
func TestDuplicateCorr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{}, DefaultConfig())
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		a.want(7, getOf(root))
		a.want(7, getOf(root))
		synctest.Wait() // both are read
		close(p.store.gate)
		if f, _ := a.end(); f.Code != 200 {
			t.Errorf("first: %d", f.Code)
		}
		f, _ := a.end()
		var r status.Report
		if err := oap.DecodeJSON(f.Payload, &r, false); err != nil || f.Code != 400 || r.Detail != "dup_corr" {
			t.Errorf("second: %d %+v %v", f.Code, r, err)
		}
		a.want(7, getOf(root))
		if f, _ := a.end(); f.Code != 200 {
			t.Errorf("again: %d %s", f.Code, f.Payload)
		}
	})
}

// TestCorruptLocal damages one local object of three: the peer learns that
// that one is corrupt, gets no byte of the damaged group, and gets the rest.
func TestCorruptLocal(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	var told []b3.Root
	p.server.deps.Corrupt = func(root b3.Root, _ error) { told = append(told, root) }
	var objs []b3.Root
	for i := range 3 {
		objs = append(objs, p.store.put(testData(3*b3.GroupSize, uint64(i))))
	}
	bad := testData(3*b3.GroupSize, 1)
	bad[b3.GroupSize+600] ^= 4
	damaged := p.store.get(objs[1])
	damaged.source = patched{damaged.source, 1, bad[b3.GroupSize : 2*b3.GroupSize]}
	c := newCollect(t, objs...)
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: objs}, c); err != nil {
		t.Fatal(err)
	}
	if status.Of(c.errs[1]) != status.Corrupt || c.groups[1] != 1 || c.errs[0] != nil || c.errs[2] != nil ||
		c.groups[2] != 3 {
		t.Errorf("errors %v, groups %v", c.errs, c.groups)
	}
	if !slices.Equal(told, objs[1:2]) {
		t.Errorf("told of %v", told)
	}
}

// patched replaces one group of a source.
type patched struct {
	b3.Source
	group int64
	data  []byte
}

func (p patched) ReadGroup(g int64, buf []byte) (int, error) {
	if g == p.group {
		return copy(buf, p.data), nil
	}
	return p.Source.ReadGroup(g, buf)
}

// TestInternalStaysInside asks for an object whose store fails: the peer is not
// told how.
func TestInternalStaysInside(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	p.server.deps.Store = failing{}
	a := p.ask(t)
	a.want(1, getOf(root))
	if f, _ := a.end(); f.Code != 500 || strings.Contains(string(f.Payload), "/secret") {
		t.Errorf("%d %s", f.Code, f.Payload)
	}
	a.want(2, `{"op":"have","objs":["`+root.String()+`"]}`)
	if f, _ := a.end(); f.Code != 500 || strings.Contains(string(f.Payload), "/secret") {
		t.Errorf("%d %s", f.Code, f.Payload)
	}
}

type failing struct{}

func (failing) OpenObject(context.Context, b3.Root) (Object, error) {
	return nil, errors.New("open /secret/path: permission denied")
}

func (failing) Presence(context.Context, []b3.Root) ([]b3.Presence, error) {
	return nil, errors.New("open /secret/path: permission denied")
}

// TestPanic lets the store panic: the stream is reset, the node lives.
func TestPanic(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	p.server.deps.Store = panicking{p.store}
	a := p.ask(t)
	a.want(1, `{"op":"have","objs":["`+root.String()+`"]}`)
	if code := a.reset(); code != codeInternal {
		t.Errorf("reset with %#x", code)
	}
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, newCollect(t, root)); err != nil {
		t.Error(err)
	}
}

type panicking struct{ *memStore }

func (panicking) Presence(context.Context, []b3.Root) ([]b3.Presence, error) { panic("a bug") }

// TestHave asks for more objects than one payload holds.
func TestHave(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	var objs []b3.Root
	for i := range MaxHave + 128 {
		data := []byte(fmt.Sprint(i))
		if objs = append(objs, b3.Sum(data)); i%3 == 0 {
			p.store.put(data)
		}
	}
	present, err := p.client.Have(t.Context(), serverID, objs)
	if err != nil || len(present) != len(objs) {
		t.Fatal(len(present), err)
	}
	for i, have := range present {
		if (have == b3.Complete) != (i%3 == 0) {
			t.Errorf("object %d is %s", i, have)
		}
	}
}
