package fault

import (
	"sync"
	"time"
)

// deadline is a time that can be moved, with a channel that is closed when it has passed.
type deadline struct {
	mu         sync.Mutex // lock: leaf
	time       time.Time
	generation uint64        // counts the calls of set, so that an old timer does not end a newer wait
	over       chan struct{} // closed when the time has passed
	timer      *time.Timer
}

func (d *deadline) init() { d.over = make(chan struct{}) }

// passed returns a channel that is closed when the deadline has passed. A later call of set
// may make a new channel.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

// at returns the deadline, the zero time if there is none.
func (d *deadline) at() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time
}

// set moves the deadline to t. The zero time means no deadline.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.time = t
	d.generation++
	select {
	case <-d.over:
		d.over = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		generation := d.generation
		d.timer = time.AfterFunc(wait, func() { d.expire(generation) })
		return
	}
	close(d.over)
}

// expire closes the channel, unless set was called since the timer of generation started.
func (d *deadline) expire(generation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.generation == generation {
		close(d.over)
	}
}
