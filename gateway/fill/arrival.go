package fill

import (
	"errors"
	"io"
	"sync"
)

// arrival has the bytes of a fill while the store's put writes them. The put calls Arrived and Closing, and any
// goroutine calls read. The zero arrival has no bytes.
//
// Invariant: nobody reads the file after Closing has returned.
type arrival struct {
	changed func() // called after each change, without the lock

	mu      sync.Mutex  // lock: leaf
	file    io.ReaderAt // nil before the first group, and after the put has closed it
	n       int64       // the bytes that file has
	readers int
	idle    chan struct{} // made by Closing; closed when nobody reads
}

// errClosed reports that the put has closed its file: the rest is in the store, or nowhere.
var errClosed = errors.New("the put has ended")

// Arrived implements Watch.
func (a *arrival) Arrived(file io.ReaderAt, n int64) {
	a.mu.Lock()
	a.file, a.n = file, n
	a.mu.Unlock()
	a.changed()
}

// Closing implements Watch.
func (a *arrival) Closing() {
	if idle := a.close(); idle != nil {
		<-idle // each reader reads one group
	}
}

// close takes the file away. It returns nil if nobody reads it.
func (a *arrival) close() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.file = nil
	if a.readers == 0 {
		return nil
	}
	a.idle = make(chan struct{})
	return a.idle
}

// arrived returns how many bytes may be sent: all but the last, which only the end of the fill releases.
func (a *arrival) arrived() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, a.n-1)
}

// read reads bytes that may be sent, from at on. The caller has seen that there are some. It returns errClosed once the
// put has closed the file.
func (a *arrival) read(p []byte, at int64) (int, error) {
	file, n := a.enter()
	if file == nil {
		return 0, errClosed
	}
	defer a.leave()
	got, err := file.ReadAt(p[:min(int64(len(p)), n-1-at)], at)
	if got > 0 {
		return got, nil
	}
	return 0, err
}

// enter counts a reader and returns the file, or nil once it is closed.
func (a *arrival) enter() (io.ReaderAt, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		a.readers++
	}
	return a.file, a.n
}

func (a *arrival) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.readers--; a.readers == 0 && a.idle != nil {
		close(a.idle)
	}
}
