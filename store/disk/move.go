package disk

import (
	"allium/protocols/status"
	"allium/store/meta"
)

// MoveFile implements the backend of a store. A crash after the removal and before the
// rename leaves a file that the next start unlinks.
func (d *Backend) MoveFile(e meta.Entry, move func(path string) error) error {
	path, ok := d.File(e)
	if !ok {
		return meta.NoFile(e.Root)
	}
	removed, err := d.segments.Remove([]meta.Entry{e})
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return status.Errorf(status.Conflict, "%s was removed or stored again by another request", e.Root)
	}
	err = move(path)
	d.Unlink(e.Root)
	return err
}
