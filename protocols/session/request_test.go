package session

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// FuzzDecodeRequest: no request panics, what is taken is bounded, a refusal is
// typed, and a deadline added to a request keeps it a request.
func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"op":"resolve","key":"a.b","deadline_ms":1200}`), false)
	f.Add([]byte(`{ }`), false)
	f.Add([]byte("{\n\"op\":\"x\"}"), false)
	codec := oap.NewCodec(1)
	z, _ := codec.Compress(nil, bytes.Repeat([]byte(" "), 3000), oap.MaxFrame)
	f.Add(z, true)
	ctx, cancel := context.WithTimeout(f.Context(), time.Hour)
	defer cancel()
	f.Fuzz(func(t *testing.T, payload []byte, comp bool) {
		in := oap.Frame{Header: oap.Header{Flags: whole}, Payload: payload}
		if comp {
			in.Flags |= oap.FlagComp
		}
		inflated, err := in.Inflated(codec, oap.MaxFrame)
		var req *Request
		if err == nil {
			req, err = decodeRequest(in, inflated)
		}
		if err != nil {
			var de *oap.DecodeError
			bomb := errors.As(err, &de) && de.Reason == oap.ReasonInflateBound
			if o := status.Of(err); o != status.BadRequest && !bomb {
				t.Fatalf("%v (%s)", err, o)
			}
			return
		}
		if b := req.budget(time.Second); len(req.Payload) > oap.MaxJSON || b <= 0 || b > time.Second {
			t.Fatalf("%d bytes, budget %s", len(req.Payload), b)
		}
		if req.Payload[0] != '{' || bytes.Contains(req.Payload, []byte("deadline_ms")) ||
			bytes.Contains(req.Payload, []byte(`\u`)) || len(req.Payload) > oap.MaxJSON-40 {
			return
		}
		again, err := decodeRequest(oap.Frame{}, withDeadline(ctx, req.Payload))
		if err != nil || again.Op != req.Op || again.DeadlineMS < 1 {
			t.Fatalf("%s with a deadline: %+v, %v", req.Payload, again, err)
		}
	})
}

func TestWithDeadline(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for in, want := range map[string]string{
		`{}`:           `{"deadline_ms":1}`,
		`{ }`:          `{"deadline_ms":1 }`,
		`{"op":"x"}`:   `{"deadline_ms":1,"op":"x"}`,
		"{\n\"a\": 1}": "{\"deadline_ms\":1,\n\"a\": 1}",
		`[]`:           `[]`,
		``:             ``,
	} {
		if got := string(withDeadline(ctx, []byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := string(withDeadline(t.Context(), []byte(`{}`))); got != `{}` {
		t.Errorf("without a deadline: %s", got)
	}
}
