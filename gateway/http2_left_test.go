package gateway

import (
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// put sends the header of a PUT of length bytes, which follow or do not.
func (h *rawH2) put(stream uint32, path string, length int) {
	h.t.Helper()
	h.buf.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "PUT"}, {Name: ":scheme", Value: "https"}, {
			Name: ":authority", Value: "node.test",
		}, {Name: ":path", Value: path},
		{Name: "content-length", Value: strconv.Itoa(length)},
	} {
		_ = h.enc.WriteField(f) // to a buffer
	}
	h.must(h.f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.buf.Bytes(), EndHeaders: true}))
}

// lingering is how many streams are kept open after their answer.
func (n *testNode) lingering() limit {
	for _, l := range n.limits.Snapshot() {
		if l.Name == "gateway.lingering" {
			return limit{l.Current, l.Rejected}
		}
	}
	return limit{-1, -1}
}

type limit struct{ current, rejected int64 }

// TestH2EarlyAnswer: who is refused in the middle of an upload has a moment to
// look at the answer before the stream is reset, and where it ends its body by
// then, the stream is not reset at all.
func TestH2EarlyAnswer(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	h := a.dialH2(t, n)
	all := map[uint32]*heard{}
	const rest = "rest"
	page := "/o/" + b3.Sum([]byte(rest)).String()
	const attempts = 20
	for i := range uint32(attempts) { // on a busy machine the moment may pass
		stream := 4*i + 1
		h.put(stream, page, len(rest))
		h.until(all, func(all map[uint32]*heard) bool { s := all[stream]; return s != nil && len(s.body) > 0 })
		if all[stream].status != "401" {
			t.Fatalf("%+v", all[stream])
		}
		open := testkit.Within(500*time.Millisecond, func() bool { return n.lingering().current == 1 })
		_ = h.f.WriteData(stream, true, []byte(rest)) // it may be closed
		h.must(h.Get(stream+2, "/healthz"))           // comes after a reset of the other
		h.until(all, func(all map[uint32]*heard) bool {
			s, next := all[stream], all[stream+2]
			return s.ended && next != nil && next.ended
		})
		if open && !all[stream].wasCut {
			return
		}
	}
	t.Errorf("%d streams of %d were reset before their answer could be looked at", attempts, attempts)
}

// TestH2EarlyAnswerEnds: who goes on sending, or says nothing more, is not waited
// for.
func TestH2EarlyAnswerEnds(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	h := a.dialH2(t, n)
	all := map[uint32]*heard{}
	h.put(1, "/nothing", 1<<30)
	h.put(3, "/nothing", 1<<30)
	h.must(h.f.WriteData(3, false, make([]byte, 10_000)))
	h.until(all, func(all map[uint32]*heard) bool {
		return all[1] != nil && all[1].wasCut && all[3] != nil && all[3].wasCut
	})
	for stream, s := range all {
		if stream > 0 && (s.status != "404" || !s.ended || s.reset != http2.ErrCodeNo) {
			t.Errorf("%d: %+v", stream, s)
		}
	}
}

// TestH2EarlyAnswersBounded: what is refused in a flood keeps no streams open.
func TestH2EarlyAnswersBounded(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := startWith(t, hooks{params: func(p *server.Params) { p.LingeringStreams = 1 }}, a.withTLS(t))
	h := a.dialH2(t, n)
	all := map[uint32]*heard{}
	const attempts = 20
	for i := range uint32(attempts) { // on a busy machine the first stream may have ended
		first, second := 4*i+1, 4*i+3
		h.put(first, "/nothing", 1<<30)
		testkit.Within(500*time.Millisecond, func() bool { return n.lingering().current > 0 })
		h.put(second, "/nothing", 1<<30)
		h.until(all, func(all map[uint32]*heard) bool {
			return all[first] != nil && all[first].wasCut && all[second] != nil && all[second].wasCut
		})
		if all[second].status != "404" || !all[second].ended {
			t.Errorf("%+v", all[second])
		}
		if n.lingering().rejected == 1 {
			return
		}
	}
	t.Errorf("%+v", n.lingering())
}
