package upkeep

import (
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// coding is an object and how it is coded.
type coding struct {
	root         b3.Root
	data, parity int
}

// attempt is the making of a coding.
type attempt struct {
	running bool
	fails   int       // in a row
	err     error     // of the latest one
	retry   time.Time // after the latest one
}

// encodings has the codings that are to be made. It is safe for concurrent use.
type encodings struct {
	mu  sync.Mutex          // lock: leaf
	all map[coding]*attempt // at most maxEncoding
}

// begin notes the start of an attempt. It returns false if the coding is being made or failed just now, or if there are
// too many; the next pass asks again.
func (l *encodings) begin(c coding, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.all[c]
	switch {
	case a == nil && len(l.all) >= maxEncoding:
		return false
	case a == nil:
		a = &attempt{}
		l.all[c] = a
	case a.running, now.Before(a.retry):
		return false
	}
	a.running = true
	return true
}

// refused notes that an attempt was not made.
func (l *encodings) refused(c coding, retry time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[c].running, l.all[c].retry = false, retry
}

// ended notes the end of an attempt. After each one that fails, up to maxDoubled, the wait is twice as long.
func (l *encodings) ended(c coding, err error, now time.Time, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.all, c)
		return
	}
	a := l.all[c]
	a.running, a.err = false, err
	a.fails++
	a.retry = now.Add(wait << min(a.fails, maxDoubled))
}

// expire forgets the codings that no pass asked for since the given time, as their pins are gone.
func (l *encodings) expire(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, a := range l.all {
		if !a.running && a.retry.Before(before) {
			delete(l.all, c)
		}
	}
}

// busy reports whether a coding is being made.
func (l *encodings) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.running {
			return true
		}
	}
	return false
}

// of returns the attempts to make what a target asks for, by the object. The zero target stands for any.
func (l *encodings) of(t meta.Target) map[b3.Root]attempt {
	list := map[b3.Root]attempt{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, a := range l.all {
		if t.Copies == 0 && (t.Data == 0 || t.Data == c.data && t.Parity == c.parity) {
			list[c.root] = *a
		}
	}
	return list
}
