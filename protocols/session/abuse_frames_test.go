package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestByteAtATime: two nodes talk over streams that carry one byte at a time,
// each way.
func TestByteAtATime(t *testing.T) {
	bubble(t, testkit.Options{Window: 1, MaxRead: 1}, func(t *testing.T, net *testkit.Network) {
		a, b := start(t, net.Host("a"), session.DefaultConfig(), echo),
			start(t, net.Host("b"), session.DefaultConfig(), echo)
		defer a.stop()
		defer b.stop()
		var wg sync.WaitGroup
		for i := range 20 {
			for from, to := range map[*node]*node{a: b, b: a} {
				wg.Go(func() {
					want := fmt.Sprintf(`{"op":"x","i":%d,"text":"%s"}`, i, strings.Repeat("ab", 100*i))
					if p, err := from.Call(t.Context(), to.host.ID(), oap.ProtoIndex, []byte(want)); err != nil ||
						string(p) != want {
						t.Errorf("%d: %.60s, %v", i, p, err)
					}
					if _, err := from.Ping(t.Context(), to.host.ID()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
	})
}

// TestCutFrames: wherever inside a frame a stream ends, it is truncated; where
// it is reset, nothing is counted; where it falls silent, the reader gives up.
func TestCutFrames(t *testing.T) {
	request := frame(oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: 1}, "cap", `{"op":"x"}`)
	answer := frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200, Proto: oap.ProtoIndex, CorrID: 1}, "",
		`yes`)
	var all []attack
	for _, how := range []struct {
		name   string
		end    func(w *wire)
		code   network.StreamErrorCode
		counts map[string]float64
		call   status.Outcome
	}{
		{"ends", func(w *wire) { _ = w.stream.CloseWrite() }, reset(oap.ReasonTruncated), rejects(oap.ReasonTruncated),
			status.BadFrame},
		{"is reset", func(w *wire) { _ = w.stream.ResetWithError(7) }, 0, nil, status.TransportDown},
		{"falls silent", func(w *wire) {}, 0, map[string]float64{"io_timeouts_total session_read": 1}, status.Timeout},
	} {
		for _, at := range []int{1, 4, 37, 38, 40, len(request) - 1} {
			all = append(all, attack{name: fmt.Sprintf("a request %s at byte %d", how.name, at), counts: how.counts,
				run: func(t *testing.T, r *rig) {
					w := r.session()
					_, _ = w.stream.Write(request[:at])
					synctest.Wait()
					how.end(w)
					if how.name != "is reset" {
						w.wantReset(how.code)
					}
				}})
		}
		for _, at := range []int{1, 38, len(answer) - 1} {
			all = append(all, attack{name: fmt.Sprintf("an answer %s at byte %d", how.name, at), counts: how.counts,
				run: func(t *testing.T, r *rig) {
					c := &calls{n: r.n}
					res := c.go1(t.Context(), `{}`)
					w := <-r.in
					w.greet(32)
					w.recv()
					_, _ = w.stream.Write(answer[:at])
					synctest.Wait()
					how.end(w)
					c.wg.Wait()
					res.want(t, how.call, "")
				}})
		}
		hello := map[string]float64{"handshake_timeouts_total": 1}
		if how.name != "falls silent" {
			hello = how.counts
		}
		all = append(all,
			attack{name: "HELLO " + how.name + " half-way", counts: hello, run: func(t *testing.T, r *rig) {
				w := r.dial()
				_, _ = w.stream.Write(frame(oap.Header{Flags: whole}, "", `{}`)[:20])
				synctest.Wait()
				how.end(w)
				if how.name != "is reset" {
					w.wantReset(how.code)
				}
			}}, attack{name: "the acceptor's HELLO " + how.name + " half-way", counts: hello,
				run: func(t *testing.T, r *rig) {
					c := &calls{n: r.n}
					res := c.go1(t.Context(), `{}`)
					w := <-r.in
					w.recv()
					_, _ = w.stream.Write(answer[:20])
					synctest.Wait()
					how.end(w)
					c.wg.Wait()
					res.want(t, how.call, "")
				}})
	}
	attacks(t, all)
}

// TestCaps: the largest frame and the largest capability, and one byte more.
func TestCaps(t *testing.T) {
	spaces := func(n int) string { return "{}" + strings.Repeat(" ", n-2) }
	low := func(c *session.Config) { c.MaxFrame = oap.MinMaxFrame }
	index := oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: 1}
	over := func(limit uint32, flags oap.Flags, sent int) attack {
		return attack{counts: rejects(oap.ReasonFrameOversize), run: func(_ *testing.T, r *rig) {
			w := r.session()
			_, _ = w.stream.Write(lying(limit+1, 1, flags, oap.ProtoIndex, 0, 1, spaces(sent)))
			w.wantReset(reset(oap.ReasonFrameOversize))
		}}
	}
	ignored := func(limit int) attack { // what nobody asked for, taken whole
		return attack{run: func(_ *testing.T, r *rig) {
			w := r.session()
			_, _ = w.stream.Write(lying(uint32(limit), 1, oap.FlagResp|oap.FlagEnd, oap.ProtoIndex, 0, 1,
				spaces(limit-oap.HeaderSize)))
			w.ask(2, `{"op":"alive"}`)
			w.wantAnswer(2, 200, "alive")
		}}
	}
	named := func(name string, a attack) attack { a.name = name; return a }
	lowered := func(a attack) attack { a.change = low; return a }
	attacks(t, []attack{
		{name: "a request of 64 KiB", run: func(_ *testing.T, r *rig) {
			w := r.session()
			_, _ = w.stream.Write(lying(oap.HeaderSize+oap.MaxJSON, 1, whole, oap.ProtoIndex,
				0, 1, spaces(oap.MaxJSON)))
			w.wantAnswer(1, 200, "{}")
		}},
		named("a request of 64 KiB and one", over(oap.HeaderSize+oap.MaxJSON, whole, oap.MaxJSON+1)),
		named("a request of 64 KiB and one, of which the header comes", over(oap.HeaderSize+oap.MaxJSON, whole, 2)),
		named("the same of a protocol nobody serves",
			attack{counts: rejects(oap.ReasonFrameOversize), run: func(_ *testing.T, r *rig) {
				w := r.session()
				_, _ = w.stream.Write(lying(oap.HeaderSize+oap.MaxJSON+1, 1, whole, 999, 0, 1, ""))
				w.wantReset(reset(oap.ReasonFrameOversize))
			}}),
		named("1 MiB", ignored(oap.MaxFrame)),
		named("1 MiB and one", over(oap.MaxFrame, oap.FlagResp|oap.FlagEnd, oap.MaxFrame+1-oap.HeaderSize)),
		named("1 MiB and one, of which the header comes", over(oap.MaxFrame, oap.FlagResp|oap.FlagEnd, 2)),
		named("128 KiB where that was negotiated", lowered(ignored(oap.MinMaxFrame))),
		named("128 KiB and one where that was negotiated",
			lowered(over(oap.MinMaxFrame, oap.FlagResp|oap.FlagEnd, oap.MinMaxFrame+1-oap.HeaderSize))),
		named("128 KiB and one where the opener asked for that",
			attack{counts: rejects(oap.ReasonFrameOversize), run: func(t *testing.T, r *rig) {
				w := r.dial()
				w.send(oap.Header{Flags: whole}, `{"ua":"wire/1","features":[],"max_frame":131072}`)
				if h, err := oap.DecodeHelloResponse(w.recv().Payload); err != nil || h.MaxFrame != oap.MinMaxFrame {
					t.Errorf("%+v, %v", h, err)
				}
				_, _ = w.stream.Write(lying(oap.MinMaxFrame+1, 1, oap.FlagResp|oap.FlagEnd, oap.ProtoIndex, 0, 1, ""))
				w.wantReset(reset(oap.ReasonFrameOversize))
			}}),
		{name: "an answer above what was negotiated", counts: rejects(oap.ReasonFrameOversize),
			run: func(t *testing.T, r *rig) {
				c := &calls{n: r.n}
				res := c.go1(t.Context(), `{}`)
				w := <-r.in
				w.greet(1) // max_frame 262144
				w.recv()
				_, _ = w.stream.Write(lying(262145, 1, oap.FlagResp|oap.FlagEnd, oap.ProtoIndex, 0, 1,
					strings.Repeat("y", 262145-oap.HeaderSize)))
				w.wantReset(reset(oap.ReasonFrameOversize))
				c.wg.Wait()
				res.want(t, status.FrameOversize, "frame_oversize")
			}},
		{name: "an answer at what was negotiated", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(1)
			w.answer(w.recv().CorrID, 200, strings.Repeat("y", 262144-oap.HeaderSize))
			c.wg.Wait()
			if len(res.payload) != 262144-oap.HeaderSize || res.err != nil {
				t.Errorf("%d bytes, %v", len(res.payload), res.err)
			}
		}},
		{name: "a capability of 4 KiB", run: func(t *testing.T, r *rig) {
			w := r.session()
			_, _ = w.stream.Write(frame(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1},
				strings.Repeat("c", oap.MaxCap), `{"op":"x"}`))
			w.wantAnswer(1, 401, "unauthenticated")
		}},
		{name: "a capability of 4 KiB and one", counts: rejects(oap.ReasonFrameOversize),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				_, _ = w.stream.Write(lying(oap.HeaderSize+oap.MaxCap+1+2, 1, whole, oap.ProtoIndex, oap.MaxCap+1, 1, ""))
				w.wantReset(reset(oap.ReasonFrameOversize))
			}},
		{name: "a frame that is not zstd, of a protocol nobody serves", counts: rejects(oap.ReasonInflateBound),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(oap.Header{Flags: whole | oap.FlagComp, Proto: 999, CorrID: 1}, "{}")
				w.wantReset(reset(oap.ReasonInflateBound))
			}},
		{name: "an event that is not zstd", counts: rejects(oap.ReasonInflateBound), run: func(t *testing.T, r *rig) {
			w := r.session()
			w.send(oap.Header{Flags: oap.FlagEvent | oap.FlagStart | oap.FlagEnd | oap.FlagComp}, "{}")
			w.wantReset(reset(oap.ReasonInflateBound))
		}},
		{name: "an answer nobody waits for that is not zstd", counts: rejects(oap.ReasonInflateBound),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd | oap.FlagComp, Proto: oap.ProtoIndex, CorrID: 7},
					"{}")
				w.wantReset(reset(oap.ReasonInflateBound))
			}},
		{name: "a ping that is no whole request", run: func(t *testing.T, r *rig) {
			w := r.session()
			w.send(oap.Header{Flags: oap.FlagReq | oap.FlagStart, CorrID: 1}, "x")
			w.wantAnswer(1, 400, "bad_request")
		}},
		{name: "64 KiB of JSON from a few bytes", run: func(t *testing.T, r *rig) {
			w := r.session()
			h := index
			h.Flags |= oap.FlagComp
			w.send(h, zipped(spaces(oap.MaxJSON)))
			w.wantAnswer(1, 200, "{}")
		}},
		{name: "64 KiB and one from a few bytes", counts: rejects(oap.ReasonInflateBound),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				h := index
				h.Flags |= oap.FlagComp
				w.send(h, zipped(spaces(oap.MaxJSON))+zipped(strings.Repeat(" \n", 25)))
				w.wantReset(reset(oap.ReasonInflateBound))
			}},
		{name: "JSON in a JSON in a JSON", run: func(t *testing.T, r *rig) {
			w := r.session()
			w.ask(1, `{"op":`+strings.Repeat(`{"a":`, 12_000))
			w.wantAnswer(1, 400, "bad_request")
			w.ask(2, `{"op":"x","a":`+strings.Repeat(`[`, 30_000)+strings.Repeat(`]`, 30_000)+`}`)
			w.wantAnswer(2, 400, "bad_request")
		}},
	})
}

// TestCorrIDs: a corr_id is in flight until it is answered, whatever it is.
func TestCorrIDs(t *testing.T) {
	repair := func(corr uint64) oap.Header { return oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: corr} }
	attacks(t, []attack{
		{name: "the ends of the range, and reuse", run: func(t *testing.T, r *rig) {
			w := r.session()
			for range 3 {
				for _, corr := range []uint64{0, 1, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
					w.ask(corr, `{"op":"x"}`)
					w.wantAnswer(corr, 200, "x")
				}
			}
		}},
		{name: "150 of one that is in flight", counts: map[string]float64{"frame_reject_total dup_corr": 150},
			run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(repair(5), `{"op":"x","deadline_ms":300}`)
				for range 150 {
					w.send(repair(5), `{"op":"x"}`)
					w.wantAnswer(5, 400, `"detail":"dup_corr"`)
				}
				w.wantAnswer(5, 504, "timeout")
				w.ask(5, `{"op":"free"}`)
				w.wantAnswer(5, 200, "free")
			}},
		{name: "more than the rate of one that is in flight",
			counts: map[string]float64{"frame_reject_total dup_corr": 3},
			change: func(c *session.Config) {
				c.ControlRate = 2
			}, run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(repair(5), `{"op":"x","deadline_ms":300}`)
				for range 3 { // not busy: the request was taken
					w.send(repair(5), `{"op":"x"}`)
					w.wantAnswer(5, 400, `"detail":"dup_corr"`)
				}
				w.wantAnswer(5, 504, "timeout")
				w.ask(6, `{"op":"x"}`)
				w.wantAnswer(6, 200, "x")
				w.ask(7, `{"op":"x"}`)
				w.wantAnswer(7, 429, `"limit":"session.control_rate"`)
			}},
		{name: "a PING with one that is in flight", counts: rejects(oap.ReasonDupCorr),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(repair(5), `{"op":"x","deadline_ms":300}`)
				w.send(oap.Header{Flags: whole, CorrID: 5}, "ping")
				w.wantAnswer(5, 400, `"detail":"dup_corr"`)
				w.wantAnswer(5, 504, "timeout")
				w.send(oap.Header{Flags: whole, CorrID: 5}, "ping")
				w.wantAnswer(5, 200, "ping")
			}},
		{name: "another protocol with one that is in flight", counts: rejects(oap.ReasonDupCorr),
			run: func(t *testing.T, r *rig) {
				w := r.session()
				w.send(repair(5), `{"op":"x","deadline_ms":300}`)
				w.ask(5, `{"op":"x"}`)
				w.wantAnswer(5, 400, `"detail":"dup_corr"`)
				w.wantAnswer(5, 504, "timeout")
			}},
		{name: "answers to what was not asked, twice, and in parts", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			first := c.go1(t.Context(), `{"n":1}`)
			w := <-r.in
			w.greet(2)
			corr := w.recv().CorrID
			for range 1000 {
				w.answer(corr+7, 200, "nobody asked")
			}
			second := c.go1(t.Context(), `{"n":2}`)
			next := w.recv().CorrID
			w.answer(next, 200, "second")
			w.answer(next, 200, "second again")
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagStart, Code: 200, Proto: oap.ProtoIndex, CorrID: next},
				"a part")
			w.answer(corr, 200, "first")
			w.answer(corr, 500, "first again")
			c.wg.Wait()
			first.want(t, status.OK, "first")
			second.want(t, status.OK, "second")
			for range 4 { // no place was given back twice, and none lost
				res := c.go1(t.Context(), `{}`)
				w.answer(w.recv().CorrID, 200, "still two places")
				c.wg.Wait()
				res.want(t, status.OK, "two places")
			}
		}},
		{name: "an answer of another protocol than was asked", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(2)
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200,
				Proto: oap.ProtoRepair, CorrID: w.recv().CorrID},
				"index, I swear")
			c.wg.Wait()
			res.want(t, status.OK, "") // the corr_id is what counts
		}},
	})
}

// TestCredit: a peer that plays with ACKs hurts its own stream at most.
func TestCredit(t *testing.T) {
	deep := func(c *session.Config) { c.MaxInflight, c.EgressFrames, c.ControlRate = 1, 1, 1<<20 }
	unlimited := func(c *session.Config) { c.ControlRate = 1 << 20 }
	attacks(t, []attack{
		{name: "5,000 ACKs that are true", change: unlimited, run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(1)
			corr := w.recv().CorrID
			for range 5000 {
				_, _ = w.stream.Write(ack(corr, "\x00\x00\x00\x00\x00\x00\x00\x01"))
			}
			w.answer(corr, 200, "yes")
			c.wg.Wait()
			res.want(t, status.OK, "yes")
		}},
		{name: "5,000 ACKs of nothing", change: unlimited, run: func(t *testing.T, r *rig) {
			w := r.session()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x","deadline_ms":100}`)
			for range 5000 {
				_, _ = w.stream.Write(ack(1, "\x00\x00\x00\x00\x00\x00\x00\x00"))
			}
			w.wantAnswer(1, 504, "timeout")
		}},
		{name: "an ACK after the answer", counts: rejects(oap.ReasonCreditViolation), run: func(t *testing.T, r *rig) {
			w := r.session()
			w.ask(1, `{"op":"x"}`)
			w.wantAnswer(1, 200, "x")
			_, _ = w.stream.Write(ack(1, "\x00\x00\x00\x00\x00\x00\x00\x01"))
			w.wantReset(reset(oap.ReasonCreditViolation))
		}},
		{name: "an ACK on the other stream of the pair", counts: rejects(oap.ReasonCreditViolation),
			run: func(t *testing.T, r *rig) {
				c := &calls{n: r.n}
				res := c.go1(t.Context(), `{}`)
				theirs := <-r.in
				theirs.greet(1)
				corr := theirs.recv().CorrID
				w := r.session()
				_, _ = w.stream.Write(ack(corr, "\x00\x00\x00\x00\x00\x00\x00\x01"))
				w.wantReset(reset(oap.ReasonCreditViolation))
				theirs.answer(corr, 200, "unhurt")
				c.wg.Wait()
				res.want(t, status.OK, "unhurt")
			}},
		{name: "credit for every request, one permit", change: deep, run: func(t *testing.T, r *rig) {
			w := r.session()
			for corr := range uint64(300) {
				w.send(oap.Header{Flags: whole | oap.FlagAckReq, Proto: oap.ProtoIndex, CorrID: corr + 1}, `{"op":"x"}`)
				if f := w.recv(); !f.Flags.IsAck() || f.CorrID != corr+1 {
					t.Fatalf("%+v", f.Header)
				}
				w.wantAnswer(corr+1, 200, "x")
			}
		}},
		{name: "credit that nobody reads", opts: testkit.Options{Window: 256},
			counts: map[string]float64{"io_timeouts_total session_write": 1}, run: func(t *testing.T, r *rig) {
				w := r.session()
				_ = w.stream.SetWriteDeadline(time.Now().Add(4 * time.Second))
				for corr := range uint64(5000) {
					if _, err := w.stream.Write(frame(oap.Header{Flags: whole | oap.FlagAckReq, Proto: oap.ProtoIndex,
						CorrID: corr + 1}, "", `{"op":"x"}`)); err != nil {
						break
					}
				}
				awaitReset(w)
			}},
	})
}
