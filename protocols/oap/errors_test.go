package oap_test

import (
	"fmt"
	"strings"
	"testing"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestReasons checks the closed list of SPEC.md §3 and its order.
func TestReasons(t *testing.T) {
	want := strings.Fields("truncated frame_undersize frame_oversize bad_version bad_flags cap_on_non_start " +
		"inflate_bound bad_hello unknown_proto credit_violation dup_corr")
	for i, r := range oap.Reasons() {
		if r.String() != want[i] || r.StreamErrorCode() != 0xA100+uint32(i) {
			t.Errorf("%d: %s, code %#x; want %s", i, r, r.StreamErrorCode(), want[i])
		}
		if back, ok := oap.ReasonOfStreamError(r.StreamErrorCode()); !ok || back != r {
			t.Errorf("%s: its code gives %s, %t", r, back, ok)
		}
		if answered := i == 8 || i == 10; r.Answered() != answered {
			t.Errorf("%s: answered %t", r, r.Answered())
		}
		err := fmt.Errorf("session: %w", oap.Refuse(r, "n %d", 7))
		outcome := status.BadFrame
		if i == 2 {
			outcome = status.FrameOversize
		}
		if rep := status.ReportOf(err); status.Of(err) != outcome || rep.Detail != want[i] ||
			!strings.Contains(rep.Message, "n 7") {
			t.Errorf("%s: outcome %s, report %+v", r, status.Of(err), rep)
		}
	}
	if n := len(oap.Reasons()); n != len(want) {
		t.Errorf("%d reasons, want %d", n, len(want))
	}
	for _, code := range []uint32{0, 0xA0FF, 0xA10B} {
		if r, ok := oap.ReasonOfStreamError(code); ok {
			t.Errorf("%#x is %s", code, r)
		}
	}
}

// TestErrorPayloadRoundTrip checks that every outcome that is an error survives encoding and decoding.
func TestErrorPayloadRoundTrip(t *testing.T) {
	for _, o := range status.All() {
		if o.Success() {
			continue
		}
		code, payload := oap.ErrorPayload(fmt.Errorf("get: %w", status.Errorf(o, "what happened")))
		err := oap.PayloadError(code, payload)
		if status.Of(err) != o || int(code) != o.Code() || err.Error() != "get: what happened" {
			t.Errorf("%s: code %d, %v (%s)", o, code, err, status.Of(err))
		}
	}
	if code, payload := oap.ErrorPayload(nil); code != 200 || payload != nil || oap.PayloadError(code, payload) != nil {
		t.Error("success is not an error")
	}
}

func TestPayloadErrorOfAnything(t *testing.T) {
	for _, tc := range []struct {
		code    uint16
		payload string
		want    status.Outcome
	}{
		{404, ``, status.NotFound},
		{429, `not json`, status.Busy},
		{503, `{"reason":"draining","new":1}`, status.Draining},
		{500, `{"reason":"ok"}`, status.Internal},
		{0, `{"reason":"ok"}`, status.Upstream},
		{999, `{}`, status.Upstream},
		{206, `any`, status.OK},
		{304, ``, status.OK},
	} {
		if got := status.Of(oap.PayloadError(tc.code, []byte(tc.payload))); got != tc.want {
			t.Errorf("%d %s: %s, want %s", tc.code, tc.payload, got, tc.want)
		}
	}
}

// TestErrorPayloadIsBounded checks that the other side accepts the payload of an error whose message
// is too long or is not UTF-8.
func TestErrorPayloadIsBounded(t *testing.T) {
	long := strings.Repeat("\x00é\xff", 100_000)
	code, payload := oap.ErrorPayload(status.Errorf(status.Internal, "%s", long))
	if len(payload) > oap.MaxJSON {
		t.Errorf("%d bytes", len(payload))
	}
	if err := oap.PayloadError(code, payload); !strings.HasPrefix(err.Error(), "\x00é") {
		t.Errorf("%.20q", err.Error())
	}
}
