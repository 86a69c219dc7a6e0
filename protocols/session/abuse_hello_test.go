package session_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// zipped is the zstd form of p.
func zipped(p string) string {
	z, ok := oap.NewCodec(1).Compress(nil, []byte(p), oap.MaxFrame)
	if !ok {
		panic("does not compress within the bounds")
	}
	return string(z)
}

// lying is a frame whose bytes are what the arguments say.
func lying(length uint32, ver uint16, flags oap.Flags, proto, capLen uint16, corr uint64, rest string) []byte {
	p := binary.BigEndian.AppendUint32(nil, length)
	p = binary.BigEndian.AppendUint16(p, ver)
	p = binary.BigEndian.AppendUint16(p, uint16(flags))
	p = binary.BigEndian.AppendUint16(p, 0)
	p = binary.BigEndian.AppendUint16(p, proto)
	p = append(p, make([]byte, 16)...)
	p = binary.BigEndian.AppendUint16(p, capLen)
	p = binary.BigEndian.AppendUint64(p, corr)
	return append(p, rest...)
}

func rejects(r oap.Reason) map[string]float64 {
	return map[string]float64{"frame_reject_total " + r.String(): 1}
}

// TestFirstFrames: whatever an opener begins with that is not a HELLO resets
// its stream with the reason.
func TestFirstFrames(t *testing.T) {
	hello := oap.Header{Flags: whole}
	var all []attack
	for _, tc := range []struct {
		name  string
		bytes []byte
		want  oap.Reason
	}{
		{"HELLO without START and END", frame(oap.Header{Flags: oap.FlagReq}, "", `{}`), oap.ReasonBadHello},
		{"HELLO without END", frame(oap.Header{Flags: oap.FlagReq | oap.FlagStart}, "", `{}`), oap.ReasonBadHello},
		{"HELLO as an event", frame(oap.Header{Flags: oap.FlagEvent | oap.FlagStart | oap.FlagEnd}, "", `{}`),
			oap.ReasonBadHello},
		{"HELLO as an ACK", frame(oap.Header{Flags: oap.FlagEvent | oap.FlagResp}, "",
			"\x00\x00\x00\x00\x00\x00\x00\x00"),
			oap.ReasonBadHello},
		{"HELLO with a corr_id", frame(oap.Header{Flags: whole, CorrID: 1}, "", `{}`), oap.ReasonBadHello},
		{"HELLO of a protocol nobody serves", frame(oap.Header{Flags: whole, Proto: 999}, "",
			`{}`), oap.ReasonBadHello},
		{"HELLO compressed", frame(oap.Header{Flags: whole | oap.FlagComp}, "",
			zipped(`{"ua":"`+strings.Repeat("x", 200)+`"}`)), oap.ReasonBadHello},
		{"no payload", frame(hello, "", ``), oap.ReasonBadHello},
		{"a list", frame(hello, "", `[]`), oap.ReasonBadHello},
		{"trailing data", frame(hello, "", `{}{}`), oap.ReasonBadHello},
		{"a key twice", frame(hello, "", `{"ua":"a","ua":"b"}`), oap.ReasonBadHello},
		{"not UTF-8", frame(hello, "", "{\"ua\":\"\xff\"}"), oap.ReasonBadHello},
		{"a number beyond 2^53", frame(hello, "", `{"new":9007199254740993}`), oap.ReasonBadHello},
		{"a list in a list in a list", frame(hello, "",
			`{"new":`+strings.Repeat("[", 30_000)+strings.Repeat("]", 30_000)+`}`), oap.ReasonBadHello},
		{"a user agent of 257 bytes", frame(hello, "", `{"ua":"`+strings.Repeat("x", 257)+`"}`), oap.ReasonBadHello},
		{"above 64 KiB", lying(oap.HeaderSize+oap.MaxJSON+1, 1, whole, 0, 0, 0, ""), oap.ReasonFrameOversize},
		{"a region of 33 bytes", frame(hello, "",
			`{"ua":"","region":"`+strings.Repeat("r", 33)+`"}`), oap.ReasonBadHello},
		{"a region that is no label", frame(hello, "", `{"ua":"","region":"<b>"}`), oap.ReasonBadHello},
		{"a max_frame below 128 KiB", frame(hello, "", `{"ua":"","max_frame":131071}`), oap.ReasonBadHello},
		{"a max_frame above 1 MiB", frame(hello, "", `{"ua":"","max_frame":1048577}`), oap.ReasonBadHello},
		{"above 128 KiB", lying(oap.MinMaxFrame+1, 1, whole, 0, 0, 0, ""), oap.ReasonFrameOversize},
		{"an old version", lying(40, 0, whole, 0, 0, 0, "{}"), oap.ReasonBadVersion},
		{"a new version", lying(40, 2, whole, 0, 0, 0, "{}"), oap.ReasonBadVersion},
		{"no flags", lying(40, 1, 0, 0, 0, 0, "{}"), oap.ReasonBadFlags},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: allium.example\r\n\r\n"), oap.ReasonFrameOversize},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("r",
			60)), oap.ReasonFrameOversize},
	} {
		all = append(all, attack{name: tc.name, counts: rejects(tc.want), run: func(_ *testing.T, r *rig) {
			w := r.dial()
			_, _ = w.stream.Write(tc.bytes)
			w.wantReset(reset(tc.want))
		}})
	}
	attacks(t, all)
}

// TestLaterFrames: what a peer sends after HELLO and may not resets the
// stream, from either side of it.
func TestLaterFrames(t *testing.T) {
	// twice what is free, from a few bytes
	bomb := zipped(strings.Repeat(" ", 64<<10)) + zipped(strings.Repeat(" ", 64<<10))
	var all []attack
	for _, tc := range []struct {
		name   string
		opener []byte // what an opener sends; nil: it may
		accept []byte // what an acceptor sends; nil: it may
		want   oap.Reason
	}{
		{"a second HELLO", frame(oap.Header{Flags: whole}, "", `{}`),
			frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200}, "", `{}`), oap.ReasonBadHello},
		{"the other side's HELLO", frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200}, "", `{}`),
			frame(oap.Header{Flags: whole}, "", `{}`), oap.ReasonBadHello},
		{"a length below the header's", lying(37, 1, whole, 2, 0, 9, ""), lying(37, 1, oap.FlagResp, 2, 0, 9, ""),
			oap.ReasonFrameUndersize},
		{"a capability beyond the frame", lying(40, 1, whole, 2, 3, 9, "{}"), lying(40, 1, oap.FlagResp, 2, 3, 9, "{}"),
			oap.ReasonFrameUndersize},
		{"a length of 4 GiB", lying(1<<32-1, 1, whole, 2, 0, 9, ""), lying(1<<32-1, 1, oap.FlagResp, 2, 0, 9, ""),
			oap.ReasonFrameOversize},
		{"another version", lying(40, 2, whole, 2, 0, 9, "{}"), lying(40, 2, oap.FlagResp, 2, 0, 9, "{}"),
			oap.ReasonBadVersion},
		{"reserved flags", lying(40, 1, whole|1<<8, 2, 0, 9, "{}"), lying(40, 1, oap.FlagResp|1<<15, 2, 0, 9, "{}"),
			oap.ReasonBadFlags},
		{"a request that is an answer", lying(40, 1, whole|oap.FlagResp, 2, 0, 9, "{}"),
			lying(40, 1, whole|oap.FlagResp, 2, 0, 9, "{}"), oap.ReasonBadFlags},
		{"an event that is a request", lying(40, 1, oap.FlagReq|oap.FlagEvent, 2, 0, 9, "{}"),
			lying(40, 1, oap.FlagReq|oap.FlagEvent, 2, 0, 9, "{}"), oap.ReasonBadFlags},
		{"a capability that starts nothing", lying(42, 1, oap.FlagReq|oap.FlagEnd, 2, 2, 9, "cc{}"),
			lying(42, 1, oap.FlagResp|oap.FlagEnd, 2, 2, 9, "cc{}"), oap.ReasonCapOnNonStart},
		{"COMP that is not zstd", frame(oap.Header{Flags: whole | oap.FlagComp, Proto: 2, CorrID: 9}, "", "plain"),
			frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd | oap.FlagComp, Code: 200, Proto: 2, CorrID: 1}, "",
				"plain"),
			oap.ReasonInflateBound},
		{"a bomb of two zstd frames", frame(oap.Header{Flags: whole | oap.FlagComp, Proto: 2, CorrID: 9}, "", bomb),
			frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd | oap.FlagComp, Code: 200, Proto: 2, CorrID: 1}, "",
				bomb),
			oap.ReasonInflateBound},
		{"zstd that says 2^62 bytes", frame(oap.Header{Flags: whole | oap.FlagComp, Proto: 2, CorrID: 9}, "",
			"\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x00\x00\x40"),
			frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd | oap.FlagComp, Code: 200, Proto: 2, CorrID: 1}, "",
				"\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x00\x00\x40"), oap.ReasonInflateBound},
		{"an ACK of 7 bytes", ack(1, "\x00\x00\x00\x00\x00\x00\x00"), ack(1, "\x00\x00\x00\x00\x00\x00\x01"),
			oap.ReasonCreditViolation},
		{"an ACK of 9 bytes", ack(1, "\x00\x00\x00\x00\x00\x00\x00\x00\x00"), ack(1,
			"\x00\x00\x00\x00\x00\x00\x00\x00\x01"),
			oap.ReasonCreditViolation},
		{"an ACK of nothing", ack(1, ""), ack(1, ""), oap.ReasonCreditViolation},
		{"an ACK of what is not in flight", ack(77, "\x00\x00\x00\x00\x00\x00\x00\x00"),
			ack(77, "\x00\x00\x00\x00\x00\x00\x00\x01"), oap.ReasonCreditViolation},
		{"an ACK of HELLO", ack(0, "\x00\x00\x00\x00\x00\x00\x00\x01"), ack(0, "\x00\x00\x00\x00\x00\x00\x00\x01"),
			oap.ReasonCreditViolation},
		{"an ACK of one frame too many", ack(1, "\x00\x00\x00\x00\x00\x00\x00\x01"),
			ack(1, "\x00\x00\x00\x00\x00\x00\x00\x02"), oap.ReasonCreditViolation},
		{"an ACK of all that will ever be", ack(1, "\xff\xff\xff\xff\xff\xff\xff\xff"),
			ack(1, "\xff\xff\xff\xff\xff\xff\xff\xff"), oap.ReasonCreditViolation},
	} {
		all = append(all, attack{name: "opener: " + tc.name, counts: rejects(tc.want), run: func(_ *testing.T, r *rig) {
			w := r.session()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x"}`) // in flight meanwhile
			_, _ = w.stream.Write(tc.opener)
			w.wantReset(reset(tc.want))
		}}, attack{name: "acceptor: " + tc.name, counts: rejects(tc.want), run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(32)
			if corr := w.recv().CorrID; corr != 1 {
				t.Fatalf("corr_id %d", corr)
			}
			_, _ = w.stream.Write(tc.accept)
			w.wantReset(reset(tc.want))
			c.wg.Wait()
			o := status.BadFrame
			if tc.want == oap.ReasonFrameOversize {
				o = status.FrameOversize
			}
			res.want(t, o, tc.want.String())
		}})
	}
	attacks(t, all)
}

func ack(corr uint64, payload string) []byte {
	return frame(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, Proto: oap.ProtoIndex, CorrID: corr}, "", payload)
}

// TestAcceptorsHello: an acceptor's HELLO that is out of its bounds, or is not
// one, ends the call with the reason.
func TestAcceptorsHello(t *testing.T) {
	respond := oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200}
	say := func(old, new string) []byte {
		const ok = `{"max_frame":1048576,"max_inflight":32,"credit_window":64,` +
			`"flags_supported":255,"versions":[1],"transports":[]}`
		return frame(respond, "", strings.Replace(ok, old, new, 1))
	}
	var all []attack
	for _, tc := range []struct {
		name  string
		bytes []byte
		want  oap.Reason
	}{
		{"max_frame above 1 MiB", say("1048576", "1048577"), oap.ReasonBadHello},
		{"max_frame below 128 KiB", say("1048576", "131071"), oap.ReasonBadHello},
		{"max_frame of 0", say("1048576", "0"), oap.ReasonBadHello},
		{"max_frame below 0", say("1048576", "-1"), oap.ReasonBadHello},
		{"max_frame of 2^32", say("1048576", "4294967296"), oap.ReasonBadHello},
		{"a region that is no label", say("{", `{"region":"EU",`), oap.ReasonBadHello},
		{"max_inflight of 0", say("32", "0"), oap.ReasonBadHello},
		{"credit_window of 0", say("64", "0"), oap.ReasonBadHello},
		{"no version of ours", say("[1]", "[2,3]"), oap.ReasonBadHello},
		{"no versions", say("[1]", "[]"), oap.ReasonBadHello},
		{"a key twice", say("{", `{"max_frame":131072,`), oap.ReasonBadHello},
		{"trailing data", frame(respond, "", `{} x`), oap.ReasonBadHello},
		{"no payload", frame(respond, "", ``), oap.ReasonBadHello},
		{"above 64 KiB", say("{", `{"x":"`+strings.Repeat("x", 64<<10)+`",`), oap.ReasonBadHello},
		{"above 128 KiB", lying(oap.MinMaxFrame+1, 1, oap.FlagResp|oap.FlagEnd, 0, 0, 0, ""), oap.ReasonFrameOversize},
		{"HELLO without END", frame(oap.Header{Flags: oap.FlagResp, Code: 200}, "", `{}`), oap.ReasonBadHello},
		{"HELLO of an opener", frame(oap.Header{Flags: whole}, "", `{}`), oap.ReasonBadHello},
		{"HELLO with a corr_id", frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200, CorrID: 1}, "", `{}`),
			oap.ReasonBadHello},
		{"GOAWAY before HELLO", frame(oap.Header{Flags: oap.FlagEvent}, "", `{"drain_ms":0}`), oap.ReasonBadHello},
		{"an ACK before HELLO", ack(0, "\x00\x00\x00\x00\x00\x00\x00\x01"), oap.ReasonBadHello},
	} {
		all = append(all, attack{name: tc.name, counts: rejects(tc.want), run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.recv()
			_, _ = w.stream.Write(tc.bytes)
			w.wantReset(reset(tc.want))
			c.wg.Wait()
			o := status.BadFrame
			if tc.want == oap.ReasonFrameOversize {
				o = status.FrameOversize
			}
			res.want(t, o, tc.want.String())
		}})
	}
	all = append(all, attack{name: "as much as the numbers hold", run: func(t *testing.T, r *rig) {
		c := &calls{n: r.n}
		res := c.go1(t.Context(), `{}`)
		w := <-r.in
		w.recv()
		_, _ = w.stream.Write(frame(respond, "",
			`{"max_frame":1048576,"max_inflight":4294967295,"credit_window":4294967295,`+
				`"flags_supported":65535,"versions":[1,65535],"transports":[]}`))
		w.answer(w.recv().CorrID, 200, "fine")
		c.wg.Wait()
		res.want(t, status.OK, "fine")
	}}, attack{name: "a HELLO that refuses, with a reset after it", run: func(t *testing.T, r *rig) {
		c := &calls{n: r.n}
		res := c.go1(t.Context(), `{}`)
		w := <-r.in
		w.recv()
		w.answer(0, 503, `{"reason":"draining","message":"later"}`)
		_, _ = w.r.Next()
		_ = w.stream.ResetWithError(network.StreamShutdown)
		c.wg.Wait()
		res.want(t, status.Draining, "later")
	}})
	attacks(t, all)
}
