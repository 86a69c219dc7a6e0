package exchange

import (
	"encoding/json"
	"strings"
	"testing"

	"allium/gateway/api"
)

// TestUnmarshalObject: members are looked at on every level, and what the client
// package writes passes.
func TestUnmarshalObject(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		`{}`: true, `{"links":null}`: true, `{"links":[]}`: true,
		`{"links":[{"peer":"a"},{"peer":"a","addrs":["x","y"]}],"corrupt":true}`: true,
		`{"links":[{"peer":"a"},{"Peer":"a"}]}`:                                  false,
		`{"links":[{"peer":"a","peer":"b"}]}`:                                    false,
		`{"links":[],"rate":0,"links":[]}`:                                       false,
		`{"CORRUPT":true}`:                                                       false,
		`{"links":[{"peer":7}]}`:                                                 false,
		`{"\u001b[31m` + strings.Repeat("x", 100) + `":1}`:                       false,
		`{"rate":1.5}`: false, `{"a" 1}`: false, `{"rate":1}x`: false, "{\"a\xff\":1}": false, `[]`: false, ``: false,
		` {"rate":1} `: true,
		`null`:         false,
	} {
		var v api.Faults
		err := unmarshalObject([]byte(body), &v)
		if (err == nil) != ok {
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
	var again api.Faults
	if err := unmarshalObject(whole, &again); err != nil {
		t.Errorf("%s: %v", whole, err)
	}
}
