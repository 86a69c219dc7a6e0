package oap_test

import (
	"strings"
	"testing"

	"allium/protocols/oap"
	"allium/protocols/status"
)

func TestDecodeJSON(t *testing.T) {
	type req struct {
		Op string   `json:"op"`
		N  int64    `json:"n"`
		F  float64  `json:"f"`
		S  []string `json:"s"`
	}
	for _, tc := range []struct {
		in     string
		strict bool // refused unless unknown keys are allowed
		ok     bool
	}{
		{`{}`, true, true},
		{`{"op":"get","n":9007199254740991,"f":1.5,"s":["a"]}`, true, true},
		{` {"n":-9007199254740991} `, true, true},
		{`{"s":["12345678901234567890","\"99999999999999999999","\\"]}`, true, true},
		{`{"n":9007199254740992}`, true, false},
		{`{"n":-9007199254740992}`, true, false},
		{`{"f":9007199254740993.0}`, true, false},
		{`{"f":1e999}`, true, false},
		{`{"n":1.5}`, true, false},
		{`{"later":{"deep":[1,2]}}`, false, true},
		{`{"later":{"n":9007199254740992}}`, false, false},
		{`{"later":{"n":1,"n":2}}`, false, false},
		{`{"OP":"get"}`, false, true},
		{`{"op":"a","op":"b"}`, true, false},
		{`{"op":"a","\u006fp":"b"}`, true, false},
		{`{"op":"a"} {}`, true, false},
		{`{"op":"a"}x`, true, false},
		{`{"op":"` + "\xff" + `"}`, true, false},
		{`{"op":"\ud800"}`, true, false},
		{`{"op":1}`, true, false},
		{`[]`, true, false},
		{``, true, false},
		{`{"op":`, true, false},
		{`{"op":"` + strings.Repeat("a", oap.MaxJSON-9) + `"}`, true, true},
		{`{"op":"` + strings.Repeat("a", oap.MaxJSON-8) + `"}`, true, false},
	} {
		for _, unknown := range []bool{false, true} {
			var v req
			err := oap.DecodeJSON([]byte(tc.in), &v, unknown)
			if want := tc.ok && (tc.strict || unknown); (err == nil) != want {
				t.Errorf("%.60s, unknown keys %t: %v", tc.in, unknown, err)
			}
			if err != nil && status.Of(err) != status.BadRequest {
				t.Errorf("%.60s: outcome %s", tc.in, status.Of(err))
			}
		}
	}
}

func TestHelloRoundTrip(t *testing.T) {
	req, err := oap.DecodeHelloRequest(oap.HelloRequest{UA: "allium/0.1.0",
		Features: []string{oap.FeatureCompZstd}}.Encode())
	if err != nil || req.UA != "allium/0.1.0" || len(req.Features) != 1 {
		t.Errorf("%+v, %v", req, err)
	}
	in := oap.HelloResponse{MaxFrame: oap.MinMaxFrame, MaxInflight: 1, CreditWindow: 1, FlagsSupported: oap.FlagsKnown,
		Versions: []uint16{2, 1}}
	res, err := oap.DecodeHelloResponse(in.Encode())
	if err != nil || res.MaxFrame != in.MaxFrame || res.FlagsSupported != 255 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := oap.DecodeHelloRequest(oap.HelloRequest{UA: strings.Repeat("a", 257)}.Encode()); err == nil {
		t.Error("a long user agent was taken")
	}
	in.CreditWindow = 0
	if _, err := oap.DecodeHelloResponse(in.Encode()); err == nil {
		t.Error("no credit was taken")
	}
	if got := string(oap.GoAway{DrainMS: 3000}.Encode()); got != `{"drain_ms":3000}` {
		t.Error(got)
	}
}
