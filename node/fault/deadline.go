package fault

import (
	"sync"
	"time"
)

// deadline is a time that is waited for with a channel.
type deadline struct {
	mu    sync.Mutex
	time  time.Time
	turn  uint64        // counts what was set, so that a late timer does not end a newer wait
	over  chan struct{} // closed when the time has passed
	timer *time.Timer
}

func (d *deadline) init() { d.over = make(chan struct{}) }

// passed is closed when the deadline has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func (d *deadline) at() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time
}

// set moves the deadline; zero is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.time = t
	d.turn++
	select {
	case <-d.over:
		d.over = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		turn := d.turn
		d.timer = time.AfterFunc(wait, func() { d.expire(turn) })
		return
	}
	close(d.over)
}

// expire ends the wait, unless the deadline was moved meanwhile.
func (d *deadline) expire(turn uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn == turn {
		close(d.over)
	}
}
