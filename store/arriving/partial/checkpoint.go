package partial

import (
	"cmp"
	"slices"
	"time"

	"allium/store/meta"
)

// unsaved counts the bytes of an object that are not saved. The object's mu guards it.
type unsaved struct {
	pages   map[int64]struct{} // pages of the bitmap that changed since the last checkpoint
	bytes   int64              // that arrived since then
	since   time.Time          // when the first of them arrived
	saving  int64              // bytes that the checkpoint in progress saves
	writing int64              // bytes that are being written
}

// add records that group g changed, with n bytes to save. It reports whether a checkpoint becomes due earlier.
func (u *unsaved) add(g, n int64) (earlier bool) {
	if len(u.pages) == 0 {
		u.since = time.Now()
	}
	u.pages[g/meta.PageBits] = struct{}{}
	before := u.bytes
	u.bytes += n
	return before == 0 || before < checkpointBytes && u.bytes >= checkpointBytes
}

// full reports whether n more bytes must wait for a checkpoint.
func (u *unsaved) full(n int64) bool {
	unnoted := u.bytes + u.saving
	return unnoted > 0 && unnoted+u.writing+n > maxUnsaved
}

// take returns the changed pages for a checkpoint, which now saves all bytes.
func (u *unsaved) take(groups *Bitmap) []meta.BitsPage {
	pages := make([]meta.BitsPage, 0, len(u.pages))
	for n := range u.pages {
		pages = append(pages, meta.BitsPage{Number: n, Bits: groups.Page(n)})
	}
	clear(u.pages)
	u.bytes, u.saving = 0, u.bytes
	return pages
}

// putBack undoes take after a checkpoint that failed.
func (u *unsaved) putBack(pages []meta.BitsPage) {
	for _, page := range pages {
		u.pages[page.Number] = struct{}{}
	}
	u.bytes, u.saving = u.bytes+u.saving, 0
	u.since = time.Now()
}

// markDirty records that group g changed, with n bytes to save. The caller holds mu.
func (p *object) markDirty(g, n int64) {
	if p.unsaved.add(g, n) {
		p.t.wake() // Table.Serve makes the checkpoint
	}
}

// useStep is the number of seconds by which the last use must have advanced before it alone is
// worth a save.
const useStep = 10

// checkpoint saves what arrived, unless p is apart. It logs an error, and the next checkpoint
// tries again.
func (p *object) checkpoint() {
	if !p.t.writes.Enter() {
		return // the store is closing and has saved everything
	}
	defer p.t.writes.Leave()
	p.saveLock <- struct{}{} // for two syncs and a write of the note
	err := p.save()
	<-p.saveLock
	if err != nil {
		p.t.deps.Log.Warn("cannot save what arrived of a download; after a restart it is fetched again",
			"root", p.root, "err", err)
	}
}

// save makes what arrived durable and has the backend record it. The caller holds saveLock
// and is a user.
func (p *object) save() error {
	p.mu.Lock()
	rec := meta.Partial{Root: p.root, Size: p.size, Stored: p.stored, Used: p.used}
	unchanged := len(p.unsaved.pages) == 0 && (!p.staging.Kept || rec.Used < p.savedRecord.Used+useStep)
	if p.apart || p.ended || !p.sizeProved || p.failed != nil || unchanged {
		defer p.mu.Unlock()
		return p.failed
	}
	pages := p.unsaved.take(&p.groups)
	p.mu.Unlock()
	slices.SortFunc(pages, func(a, b meta.BitsPage) int { return cmp.Compare(a.Number, b.Number) })
	err := p.t.deps.Backend.Save(p.staging, rec, pages)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.unsaved.putBack(pages)
		p.failed = p.staging.Failed
		return err
	}
	p.unsaved.saving, p.savedRecord = 0, rec
	return nil
}

// nextCheckpoint returns how long until the next checkpoint is due. ok is false when there
// is nothing to save.
func (p *object) nextCheckpoint(now time.Time) (wait time.Duration, ok bool) {
	select {
	case <-p.ready:
	default:
		return 0, false // it is being loaded, by one goroutine and without mu
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended || !p.sizeProved || p.failed != nil || len(p.unsaved.pages) == 0:
		return 0, false
	case p.unsaved.bytes >= checkpointBytes && p.size-(p.stored-p.unsaved.bytes) > maxUnsaved:
		return max(0, checkpointRetry-now.Sub(p.unsaved.since)), true
	}
	return max(0, checkpointAge-now.Sub(p.unsaved.since)), true
}
