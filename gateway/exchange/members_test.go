package exchange

import (
	"encoding/json"
	"reflect"
	"testing"

	"allium/gateway/api"
)

// TestCheckMembers: members are looked at on every level, and what the client
// package writes passes.
func TestCheckMembers(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		`{}`: true, `{"links":null}`: true, `{"links":[]}`: true,
		`{"links":[{"peer":"a"},{"peer":"a","addrs":["x","y"]}],"corrupt":true}`: true,
		`{"links":[{"peer":"a"},{"Peer":"a"}]}`:                                  false,
		`{"links":[{"peer":"a","peer":"b"}]}`:                                    false,
		`{"links":[],"rate":0,"links":[]}`:                                       false,
		`{"CORRUPT":true}`:                                                       false,
		`null`:                                                                   false,
	} {
		var v api.Faults
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := checkMembers([]byte(body), reflect.TypeFor[api.Faults]()); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	whole, err := json.Marshal(api.Faults{
		Links:   []api.LinkFault{{Peer: "a", Addrs: []string{"b"}, Cut: true, DelayMS: 1, JitterMS: 1, Loss: 0.5}},
		Corrupt: true, FullDisk: true, ClockSkewMS: 1, Rate: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkMembers(whole, reflect.TypeFor[api.Faults]()); err != nil {
		t.Errorf("%s: %v", whole, err)
	}
}
