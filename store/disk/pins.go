package disk

import (
	"allium/protocols/b3"
	"allium/store/meta"
)

// DropPin implements the backend of a store.
func (d *Backend) DropPin(root b3.Root, label string) (bool, error) {
	return d.segments.DropPin(root, label, false)
}

// ForgetPin implements the backend of a store.
func (d *Backend) ForgetPin(root b3.Root, label string) (bool, error) {
	return d.segments.DropPin(root, label, true)
}

// Pin implements the backend of a store.
func (d *Backend) Pin(root b3.Root, label string) (meta.Pin, bool, error) {
	p, _, ok, err := d.index.Pin(root, label)
	return p, ok, err
}

// Pins implements the backend of a store.
func (d *Backend) Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error) {
	return d.pins(root, label, false, page)
}

// Released implements the backend of a store.
func (d *Backend) Released(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error) {
	return d.pins(root, label, true, page)
}

func (d *Backend) pins(root b3.Root, label string, released bool, page []meta.Pin) ([]meta.Pin, error) {
	err := d.index.Pins(root, label, released, func(p meta.Pin) bool {
		page = append(page, p)
		return len(page) < cap(page)
	})
	return page, err
}
