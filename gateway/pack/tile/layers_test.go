package tile

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestLayers: each item of the list has its place, and a damaged list ends early.
func TestLayers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"": nil, "{}": nil, "null": nil, "[]": nil, `[{"id":"roads"},{"id":"parks","minzoom":4}]`: {"roads", "parks"},
		`[1,{"id":2},{},{"id":"x"}]`: {"", "", "", "x"}, `[{"id":"a"},{"id`: {"a"},
	} {
		info := Info{VectorLayers: json.RawMessage(list)}
		if got := slices.Collect(info.Layers()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
	for id := range (&Info{VectorLayers: json.RawMessage(`[{"id":"a"},{"id":"b"}]`)}).Layers() {
		if id != "a" {
			t.Errorf("it went on to %q", id)
		}
		break
	}
}
