package admin

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// FuzzQuery encodes requests of every verb as the client does, and reads them as the route does.
func FuzzQuery(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, "a=b&é")
	}
	f.Add(uint64(0), "")
	f.Add(uint64(1), "b3:é/a b&c=d?#%2f;+\x00\xff")
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
		types := []reflect.Type{
			reflect.TypeFor[api.AddOptions](), reflect.TypeFor[api.AddFileRequest](), reflect.TypeFor[api.GetFileRequest](),
		}
		for _, v := range api.Verbs() {
			types = append(types, v.Request)
		}
		for _, of := range types {
			sent := reflect.New(of)
			for _, p := range api.Params(of) {
				if !p.Required && rnd.IntN(2) == 0 {
					continue // missing, with what a pointer would point to
				}
				fill(rnd, &p, p.Field(sent.Elem()), text)
			}
			q := api.EncodeQuery(sent.Elem().Interface())
			known := exchange.ParamsOf(of)
			read, err := exchange.ParseParams(q.Encode(), known)
			got := reflect.New(of)
			if err == nil {
				err = read.Decode(got.Interface())
			}
			if err != nil || !reflect.DeepEqual(got.Interface(), sent.Interface()) {
				t.Errorf("%s: %+v, %v, want %+v (%s)", of, got.Elem(), err, sent.Elem(), q.Encode())
			}
		}
	})
}

// fill sets a field to a value that its parameter allows.
func fill(rnd *rand.Rand, p *api.Param, f reflect.Value, text string) {
	switch {
	case f.Kind() == reflect.Bool:
		f.SetBool(rnd.IntN(2) == 0)
	case f.Type() == reflect.TypeFor[time.Duration]():
		f.SetInt(1 + rnd.Int64N(int64(720*time.Hour)))
	case f.Kind() == reflect.Int:
		f.SetInt(1 + rnd.Int64N(32))
	case p.Of != nil:
		f.SetString(p.Of[rnd.IntN(len(p.Of))])
	case p.Most != "":
		f.SetString(text[:min(len(text), 32)])
	default:
		f.SetString(text)
	}
	if p.Required && f.String() == "" {
		f.SetString("x")
	}
}

// FuzzDecode gives every verb queries that its route refuses as bad_request, or reads.
func FuzzDecode(f *testing.F) {
	f.Add("key=x&for=24h&limit=5&rf=0")
	f.Add("key=x&rf=99999999999999999999")
	f.Fuzz(func(t *testing.T, query string) {
		for _, v := range api.Verbs() {
			read, err := exchange.ParseParams(query, exchange.ParamsOf(v.Request))
			if err == nil {
				err = read.Decode(reflect.New(v.Request).Interface())
			}
			if err != nil && status.Of(err) != status.BadRequest {
				t.Errorf("%s: %q: %v", v.ID, query, err)
			}
		}
	})
}

// TestTargetQuery checks that no target, an empty one, copies and an erasure coding are four requests.
func TestTargetQuery(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]*api.Target{
		"key=x": nil, "key=x&rf=0": {}, "key=x&rf=3": {RF: 3}, "ec=6%2B3&key=x": {EC: "6+3"},
	} {
		if got := api.EncodeQuery(api.PinRequest{Key: "x", Target: target}).Encode(); got != want {
			t.Errorf("%v: %s, want %s", target, got, want)
		}
	}
}
