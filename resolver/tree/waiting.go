package tree

import (
	"allium/protocols/manifest"
	"allium/protocols/object"
)

// unread is the stack of the directories whose entries were not all looked at yet.
type unread struct {
	dirs []cursor
	refs int // how many refs are in dirs
}

// push adds a directory. Above maxRefs entries in memory, it drops those of the directories at the bottom of the
// stack, which are read last.
func (u *unread) push(c cursor) {
	u.dirs = append(u.dirs, c)
	u.refs += len(c.refs)
	for i := 0; u.refs > maxRefs && i < len(u.dirs)-1; i++ {
		u.refs -= len(u.dirs[i].refs)
		u.dirs[i].refs = nil
	}
}

// take returns the next entries of the directory at the top, at most routed, and removes it after its last entry.
func (u *unread) take() []manifest.Ref {
	top := len(u.dirs) - 1
	c := &u.dirs[top]
	all := c.refs
	refs := all[c.pos:min(c.pos+routed, len(all))]
	if c.pos += len(refs); c.pos == len(all) {
		u.refs -= len(all)
		u.dirs = u.dirs[:top]
	}
	return refs
}

// files holds the missing files that were not requested yet.
type files struct {
	batch   []manifest.Ref // being filled
	batched int64          // bytes of batch
	ready   [][]manifest.Ref
	large   []manifest.Ref
}

// add adds a file: to the batch, which it closes first if that is full, or to the large files.
func (f *files) add(ref manifest.Ref) {
	if ref.Size > maxBatched {
		f.large = append(f.large, ref)
		return
	}
	if len(f.batch) == object.MaxGet || f.batched+ref.Size > maxBatchBytes {
		f.closeBatch()
	}
	f.batch = append(f.batch, ref)
	f.batched += ref.Size
}

// closeBatch makes the batch ready, if it has files.
func (f *files) closeBatch() {
	if len(f.batch) > 0 {
		f.ready = append(f.ready, f.batch)
		f.batch, f.batched = nil, 0
	}
}

// hasBatch reports whether a batch is ready, or large enough.
func (f *files) hasBatch() bool { return len(f.ready) > 0 || len(f.batch) >= minBatch }

// popBatch returns the next batch. There must be one.
func (f *files) popBatch() []manifest.Ref {
	if len(f.ready) == 0 {
		f.closeBatch()
	}
	refs := f.ready[0]
	f.ready = f.ready[1:]
	return refs
}

// popLarge returns the large file that was added last. There must be one.
func (f *files) popLarge() manifest.Ref {
	top := len(f.large) - 1
	ref := f.large[top]
	f.large = f.large[:top]
	return ref
}
