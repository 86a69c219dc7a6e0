package files

import (
	"sync"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// A batch of reported addresses is full at either bound. An add that is
// interrupted has stored at most one batch of files that it did not report.
const (
	rootBatchFiles = 256
	rootBatchBytes = 64 << 20
)

// rootBatch collects the addresses of the files whose bytes an add stored, and
// reports them in the order of the items. One goroutine uses it.
type rootBatch struct {
	report func([]b3.Root) // nil: addresses are not reported
	roots  []b3.Root
	bytes  int64 // of the files in roots
}

// add takes a stored item.
func (b *rootBatch) add(a *pipelineItem) {
	if b.report == nil || a.Kind != manifest.File || !a.Root.IsZero() {
		return
	}
	b.roots = append(b.roots, a.object.Root)
	b.bytes += a.object.Size
	if len(b.roots) >= rootBatchFiles || b.bytes >= rootBatchBytes {
		b.flush()
	}
}

// flush reports the collected addresses.
func (b *rootBatch) flush() {
	if len(b.roots) > 0 {
		b.report(b.roots)
	}
	b.roots, b.bytes = nil, 0 // the receiver keeps the slice
}

// maxSentFiles bounds the files that a sentFiles remembers. A node reports a file
// after at most rootBatchFiles others, and a few hundred are on the way to it.
const maxSentFiles = 16 << 10

// sentFiles matches the files that are sent to a node with the addresses that the
// node reports. Its methods are safe for concurrent use.
type sentFiles struct {
	mu       sync.Mutex // lock: leaf
	sent     int64      // files whose bytes were sent
	reported int64      // addresses that the node has reported
	waiting  []sentFile
	early    b3.Root // reported for the file after the last sent one; zero: none
}

// sentFile is a file whose address is not reported yet.
type sentFile struct {
	number int64 // the files sent before it
	record func(b3.Root)
}

// add takes the next file that was sent. It calls record with the file's address
// once the node reports it; a nil record is not called. While maxSentFiles wait,
// the file is forgotten: record is never called. So a slow node does not stop
// the sender.
func (s *sentFiles) add(record func(b3.Root)) {
	s.mu.Lock()
	number, early := s.sent, s.early
	s.sent++
	s.early = b3.Root{}
	if record != nil && early.IsZero() && len(s.waiting) < maxSentFiles {
		s.waiting = append(s.waiting, sentFile{number, record})
	}
	s.mu.Unlock()
	if record != nil && !early.IsZero() {
		record(early)
	}
}

// report takes the addresses of the next files. It ignores addresses of files
// that were not sent.
func (s *sentFiles) report(roots []b3.Root) {
	for _, root := range roots {
		if record := s.next(root); record != nil {
			record(root)
		}
	}
}

// next returns what records the address of the next file; nil: nothing does.
func (s *sentFiles) next(root b3.Root) func(b3.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.reported
	s.reported++
	if number == s.sent { // the node was faster than the sender, which is about to add the file
		s.early = root
		return nil
	}
	if len(s.waiting) == 0 || s.waiting[0].number != number {
		return nil
	}
	record := s.waiting[0].record
	s.waiting = s.waiting[1:]
	return record
}
