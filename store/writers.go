package store

import "sync"

// writers are the writes to the backend that may outlive the store's other
// operations by a little, and that it waits for before it closes.
type writers struct {
	entry  sync.Mutex
	closed bool           // the backend takes no more
	active sync.WaitGroup // Add only while !closed
}

// enter admits one write, or reports that the backend is about to close; leave
// ends what was admitted.
func (w *writers) enter() bool {
	w.entry.Lock()
	defer w.entry.Unlock()
	if w.closed {
		return false
	}
	w.active.Add(1)
	return true
}

func (w *writers) leave() { w.active.Done() }

// close admits no more, and waits for those that were.
func (w *writers) Close() {
	w.entry.Lock()
	w.closed = true
	w.entry.Unlock()
	w.active.Wait()
}
