package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// script is a conversation as bytes: each step is one byte that says what
// happens, and up to two that say how. What a script cannot say well-formed,
// its last step, raw, says in its own bytes.
type script struct {
	p []byte
}

func (s *script) next() byte {
	if len(s.p) == 0 {
		return 0
	}
	b := s.p[0]
	s.p = s.p[1:]
	return b
}

// flags, protocols, corr_ids and payloads that a script chooses from.
var (
	fuzzFlags = []oap.Flags{whole, whole | oap.FlagAckReq, whole | oap.FlagComp, oap.FlagReq,
		oap.FlagReq | oap.FlagStart, asAnswer, oap.FlagResp, oap.FlagEvent, oap.FlagEvent | oap.FlagResp,
		whole | oap.FlagAppE2E}
	fuzzPayloads = []string{
		``, `{}`, `{"op":"x","deadline_ms":200}`, `{"op":"x"}`, `{"op":"cap"}`, `{"op":"dance"}`,
		`{"op":"y","deadline_ms":-1}`, `{"drain_ms":1}`, `x`,
		"\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", "\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00",
		noise(65), noise(60_000),
	}
)

// step does the next step of a script on a stream; false: the script is over.
func (s *script) step(t *testing.T, w *wire) bool {
	if len(s.p) == 0 {
		return false
	}
	switch op := s.next(); op % 8 {
	case 0:
		_, _ = w.stream.Write(frame(oap.Header{Flags: whole}, "", `{}`))
	case 1, 2: // frames that a reader takes
		how := s.next()
		h := oap.Header{Flags: fuzzFlags[int(how>>4)%len(fuzzFlags)],
			Proto: uint16(how & 7 % 5), CorrID: uint64(op >> 5)}
		p, err := encode(oap.Frame{Header: h, Payload: []byte(fuzzPayloads[int(s.next())%len(fuzzPayloads)])})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.stream.Write(p)
	case 3:
		time.Sleep(time.Duration(s.next()) * 50 * time.Millisecond)
	case 4:
		synctest.Wait()
	case 5: // some of what came
		p := make([]byte, 1+int(s.next())*64)
		_ = w.stream.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = w.stream.Read(p)
	case 6:
		if s.next()%4 == 0 {
			_ = w.stream.CloseWrite()
		}
	case 7:
		_, _ = w.stream.Write(s.p)
		s.p = nil
	}
	return true
}

// FuzzSession: whatever an opener sends, and whenever, the node neither panics
// nor hangs: the session ends by itself, an honest peer is answered and nothing
// is left.
func FuzzSession(f *testing.F) {
	hello := "\x00\x04"
	for _, s := range []string{
		"", "\x07", hello, hello + "\x06\x00", "\x00\x00", // nothing, nothing at all, HELLO, an end, twice
		hello + "\x21\x02\x02\x21\x02\x02\x04\x03\x08",                 // a request, twice, and an answer
		hello + "\x41\x14\x03\x41\x14\x03\x05\xff\x06\x00",             // credit
		hello + "\x61\x84\x09\x61\x04\x02\x61\x84\x09\x61\x84\x0a",     // ACKs
		hello + "\x21\x04\x05\x05\x10\x21\x24\x0b\x03\xff",             // an unknown op, a bomb
		hello + "\x21\x52\x01\x21\x70\x07\x21\x73\x01\x21\x00\x0c",     // answers, GOAWAY, an event, a long PING
		hello + "\x21\x02\x0d\x21\x02\x0d\x21\x02\x0d\x03\xff\x03\xff", // large requests and silence
		"\x07GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		hello + "\x07\x00\x00\x00\x26\x00\x01\x00\x19\x00\x00\x00\x02", // half a header
		hello + "\x21\x04\x03\x06\x00\x03\xff",                         // an end that owes an answer
	} {
		f.Add([]byte(s), byte(0))
		f.Add([]byte(s), byte(1))
	}
	f.Fuzz(func(t *testing.T, conversation []byte, how byte) {
		if len(conversation) > 400 {
			return
		}
		opts := testkit.Options{Window: []int{256 << 10, 300}[how&1], MaxRead: []int{0, 1}[how>>1&1]}
		bubble(t, opts, func(t *testing.T, net *testkit.Network) {
			cfg := session.DefaultConfig()
			cfg.MaxInflight, cfg.EgressFrames, cfg.ControlRate = 4, 4, 20
			n := start(t, net.Host("a"), cfg, abused)
			defer n.stop()
			w := dial(t, net.Host("b"), "a")
			_ = w.stream.SetWriteDeadline(time.Now().Add(2 * time.Minute))
			begun := time.Now()
			for s := (&script{conversation}); s.step(t, w); {
				if time.Since(begun) > time.Minute {
					break
				}
			}
			good := dial(t, net.Host("good"), "a")
			good.hello()
			good.ask(1, `{"op":"alive"}`)
			good.wantAnswer(1, 200, "alive")
			_ = good.stream.Close()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if left := n.Sessions(); len(left) != 0 {
				t.Errorf("still open: %+v", left)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if left := n.Drain(ctx, 0); left != 0 {
				t.Errorf("%d requests in flight", left)
			}
			for _, l := range n.limits.Snapshot() {
				if l.Current != 0 {
					t.Errorf("held: %+v", l)
				}
			}
			if p := n.metric(t, "session_handler_panics_total") + n.metric(t, "session_worker_deaths_total"); p != 0 {
				t.Errorf("%v panics", p)
			}
			if o, c := n.metric(t, "session_open_total"), n.metric(t, "session_close_total"); o != c {
				t.Errorf("%v sessions opened, %v closed", o, c)
			}
		})
	})
}
