package exchange

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// FuzzJSON: a body that is read is what it says, and one that is not is the
// client's mistake.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"corrupt":true}`, `{"corrupt":true}x`, `{"corupt":true}`,
		`{"links":[{"peer":"12D4","delay_ms":50,"loss":0.25}]}`, `{"rate":1e99}`, `[]`, `null`, "", "\xef\xbb\xbf{}",
		`{"clock_skew_ms":-9223372036854775808}`, strings.Repeat("[", 20_000), `{"corrupt":true,"corrupt":false}`,
		string(gzipped(f, []byte(`{"corrupt":true}`))),
		`{"name":"blog.site","value":"text","ttl_ms":60000,"life_ms":604800000}`,
		`{"name":"blog.site","name":"b.site"}`,
		`{"name":"blog.site","ttl_ms":123456789012345678901234567890}`, `{"name":1}`, `{"name":"\ud800"}`,
	} {
		for _, encoding := range []string{"", "gzip", "zstd", "gzip, gzip"} {
			f.Add([]byte(s), encoding)
		}
	}
	g := decoding()
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		fuzzPublish(t, g, body)
		var v api.Faults
		_, err := g.ReadJSON(newPlain(httptest.NewRecorder()), r, &v)
		if err != nil {
			if o := status.Of(err); !slices.Contains([]status.Outcome{
				status.BadRequest, status.BodyCap, status.Unsupported,
			}, o) {
				t.Errorf("%s: %v", o, err)
			}
			return
		}
		if err := v.Validate(); err != nil && status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", v, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(again))
		if _, err := g.ReadJSON(newPlain(httptest.NewRecorder()), r, &v); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}

// fuzzPublish reads body as what POST /api/v1/name/publish takes.
func fuzzPublish(t *testing.T, g *Bodies, body []byte) {
	t.Helper()
	read := func(body []byte) (v api.PublishRequest, err error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		_, err = g.ReadJSON(newPlain(httptest.NewRecorder()), r, &v)
		return v, err
	}
	v, err := read(body)
	if err != nil {
		if o := status.Of(err); o != status.BadRequest && o != status.BodyCap {
			t.Errorf("%s: %v", o, err)
		}
		return
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := read(again); err != nil || back != v {
		t.Errorf("%s: %+v, %v", again, back, err)
	}
}

// TestHugeNumbers: a number that its member cannot hold is refused as such.
func TestHugeNumbers(t *testing.T) {
	for _, body := range []string{
		`{"ttl_ms":123456789012345678901234567890}`, `{"ttl_ms":9223372036854775808}`,
		`{"life_ms":-9223372036854775809}`,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		_, err := decoding().ReadJSON(newPlain(httptest.NewRecorder()), r, &api.PublishRequest{})
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "_ms is a number out of range") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
