package partial

import "allium/store/meta"

// writeStart is what startWrite says of an item.
type writeStart uint8

const (
	writeBegun writeStart = iota // endWrite follows
	writeHere                    // the item is here already
	writeFull                    // checkpointMost bytes are not noted: relieve, then try again
)

// full reports whether n more bytes must wait for a checkpoint. Bytes of an
// object whose size is not proved cannot be noted, and do not wait. mu is held.
func (p *object) full(n int64) bool {
	unnoted := p.fresh + p.noting
	return p.st != nil && p.proved && unnoted > 0 && unnoted+p.coming+n > checkpointMost
}

// relieve returns when n more bytes have a place: it waits for the checkpoint
// that is under way, and makes one itself when that was not enough. An error is
// that of its own checkpoint, or draining.
func (p *object) relieve(n int64) error {
	if !p.join() {
		return nil // the ingest has ended, and startWrite says how
	}
	defer p.unuse()
	p.t.waits.Add(1)
	if !p.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer p.t.writes.Leave()
	select {
	case p.saving <- struct{}{}: // held for two syncs and a write of the index
	case <-p.t.deps.Admission.Stopping():
		return meta.ErrDraining
	}
	defer func() { <-p.saving }()
	p.mu.Lock()
	full := p.full(n)
	p.mu.Unlock()
	if !full {
		return nil
	}
	return p.save()
}
