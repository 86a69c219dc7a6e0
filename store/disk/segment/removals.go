package segment

import (
	"allium/protocols/b3"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// dropEntry deletes e from the index. For a large object it adds the note that its files,
// or its bytes in the bucket, are to be deleted.
func (s *Log) dropEntry(b *tables.Batch, e meta.Entry) error {
	err := b.DropEntry(e.Root)
	if err == nil && !meta.Small(e.Size) {
		if err = s.addRemoval(b, e.Root); err == nil && s.bucket != nil {
			err = s.bucket.Remove(b, e.Root)
		}
	}
	return err
}

// addRemoval adds to b the note that root's files are to be deleted.
func (s *Log) addRemoval(b *tables.Batch, root b3.Root) error {
	s.lastRemoval++
	return b.SetFileRemoval(root, s.lastRemoval)
}

// copyRemoval appends a tombstone or a dropped pin again while an older segment may hold
// the record that it revokes.
func (p *plan) copyRemoval(c *change) (bool, error) {
	if !p.log.usage.hasOlder(c.segment) {
		if c.kind != moveTombstone {
			return false, nil
		}
		// While the files may exist, a tombstone accounts for them.
		if _, removed, err := p.indexBatch.FileRemoval(c.entry.Root); err != nil || !removed {
			return false, err
		}
	}
	head := p.records.Len()
	if c.kind == moveTombstone {
		_, ok, err := p.indexBatch.Get(c.entry.Root)
		if err != nil || ok {
			return false, err
		}
		p.records.Tombstone(c.entry.Root)
	} else {
		_, _, ok, err := p.indexBatch.Pin(c.pin.Root, c.pin.Label)
		if err != nil || ok {
			return false, err
		}
		p.records.Unpin(c.pin.Root, c.pin.Label)
	}
	p.deltas = append(p.deltas, delta{seg: p.log.active.num, tomb: int64(p.records.Len() - head)})
	return true, nil
}

// forgetRemovals drops the notes of removals whose files are deleted. It skips an object
// that was stored or removed again.
func (p *plan) forgetRemovals(c *change) (bool, error) {
	for root, number := range c.removals {
		now, ok, err := p.indexBatch.FileRemoval(root)
		if err != nil {
			return false, err
		}
		if !ok || now != number {
			continue
		}
		if err := p.indexBatch.DropFileRemoval(root); err != nil {
			return false, err
		}
	}
	return true, nil
}
