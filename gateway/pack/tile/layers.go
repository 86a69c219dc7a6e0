package tile

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
)

// Layers returns the ids of the vector layers in their order, and "" for an item of the list without one. It decodes
// one item at a time, and ends where the list is damaged.
func (i *Info) Layers() iter.Seq[string] {
	return func(yield func(string) bool) {
		d := json.NewDecoder(bytes.NewReader(i.VectorLayers))
		if start, err := d.Token(); err != nil || start != json.Delim('[') {
			return
		}
		for d.More() {
			var layer struct {
				ID string `json:"id"`
			}
			err := d.Decode(&layer)
			if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !wrong || !yield(layer.ID) {
				return
			}
		}
	}
}
