// Package except has exceptions.
package except

import (
	"os"
	"sync"
)

type log struct {
	// lock: held across I/O and waits, because records must
	// be in order.
	mu sync.Mutex // guards the file; lock: leaf
	f  *os.File
	ch chan int
	cb func()
}

func (l *log) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Write(nil)
	<-l.ch
	l.cb() // want `except.log.mu is held across calls`
}

type unused struct {
	// lock: held across I/O, because it was once.
	mu sync.Mutex // lock: leaf; // want `except.unused.mu is never held across I/O: remove the exception`
}

type noReason struct {
	// lock: held across I/O
	mu sync.Mutex // lock: leaf; // want `"lock: held across I/O" is neither a place .* nor an exception`
}

type lines struct {
	mu sync.Mutex // lock: leaf
	cb func()
}

func (l *lines) ignored() {
	l.mu.Lock()
	defer l.mu.Unlock()
	os.Remove("a") //lockcheck:ignore nobody waits for this lock
	//lockcheck:ignore nobody waits for this lock
	os.Remove("b")
	os.Remove("c") // want `held across I/O`
	//lockcheck:ignore // want `the exception has no reason`
	l.n() //lockcheck:ignore there is nothing // want `the exception excepts nothing: there is nothing`
	l.n() //lockcheck:computes there is nothing // want `the exception excepts nothing: there is nothing`
}

func (l *lines) n() {}

// remove is still I/O for those that call it, and calm is not.
func (l *lines) remove() {
	l.mu.Lock()
	os.Remove("a") //lockcheck:ignore nobody waits for this lock
	l.mu.Unlock()
}

func (l *lines) calm() {
	os.Remove("a") //lockcheck:computes the file system of this test is in memory
	l.cb()         //lockcheck:computes it counts
}

type other struct {
	mu sync.Mutex // lock: metadata
}

func (o *other) callers(l *lines) {
	o.mu.Lock()
	l.remove() // want `except.other.mu is held across I/O`
	l.calm()
	o.mu.Unlock()
}

type doer interface { //lockcheck:computes nothing calls it // want `the exception excepts nothing`
	Do()
}

// A lock under which call-backs are excepted may have any place: what they lock is not known.
type open struct {
	// lock: held across calls, because they are the tests'.
	mu sync.Mutex // lock: metadata
	cb func()
}

func (o *open) call() {
	o.mu.Lock()
	o.cb()
	o.mu.Unlock()
}
