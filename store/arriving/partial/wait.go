package partial

import "allium/store/meta"

// writeState is the decision of startWrite about an item.
type writeState uint8

const (
	writeBegun    writeState = iota // the caller writes it and calls endWrite
	writeStored                     // the group is stored already
	writeMustWait                   // maxUnsaved bytes are not saved: call waitForCheckpoint, then try again
)

// mustWait reports whether n more bytes must wait for a checkpoint. Bytes of an object
// whose size is not proved, or that is apart, are not saved and do not wait. The caller holds mu.
func (p *object) mustWait(n int64) bool {
	return p.staging != nil && !p.apart && p.sizeProved && p.unsaved.full(n)
}

// waitForCheckpoint returns when n more bytes can be written. It waits for the checkpoint in progress, and makes one
// itself if that was not enough. It returns the error of the checkpoint that it made, or draining.
func (p *object) waitForCheckpoint(n int64) error {
	if !p.addUser() {
		return nil // the ingest ended; startWrite returns how
	}
	defer p.release()
	p.t.waited.Add(1)
	if !p.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer p.t.writes.Leave()
	select {
	case p.saveLock <- struct{}{}: // held for two syncs and a write of the index
	case <-p.t.deps.Admission.Stopping():
		return meta.ErrDraining
	}
	defer func() { <-p.saveLock }()
	p.mu.Lock()
	full := p.mustWait(n)
	p.mu.Unlock()
	if !full {
		return nil
	}
	return p.save()
}
