package upkeep

import (
	"sync"
	"time"

	"allium/store/cluster/repair"
)

// jobs is the state of the jobs that send copies, without their objects. It is safe for concurrent use.
type jobs struct {
	mu     sync.Mutex // lock: leaf
	full   bool       // a send was not queued in this tick
	moving bool       // a job that moves copies is queued or runs
	err    error      // of the latest job, nil if that succeeded
	rate   float64    // bytes per second of the latest sends, a moving average
	at     time.Time  // of the latest one
}

// begin notes the start of a tick.
func (j *jobs) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.full = false
}

// isMoving reports whether a job that moves copies is queued or runs.
func (j *jobs) isMoving() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moving
}

// queue notes a job that is about to be queued.
func (j *jobs) queue(kind repair.Kind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moving = j.moving || kind == repair.Move
}

// refused notes that the queue had no place for a job.
func (j *jobs) refused(kind repair.Kind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if kind == repair.Move {
		j.moving = false
	} else {
		j.full = true
	}
}

// ended notes the end of a job with its error.
func (j *jobs) ended(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

// failure returns the error of the latest job.
func (j *jobs) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// moved notes the end of a job that moves copies.
func (j *jobs) moved() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moving = false
}

// sent notes that a send of so many bytes took so long, if it sent any. It reports whether another job had no place in
// this tick.
func (j *jobs) sent(bytes int64, took time.Duration, now time.Time) (full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if bytes > 0 {
		r := float64(bytes) / max(took.Seconds(), .001)
		if j.rate > 0 && now.Sub(j.at) < speedFor {
			r = j.rate + (r-j.rate)/8
		}
		j.rate, j.at = r, now
	}
	return j.full
}

// eta returns how long a send of so many bytes takes, 0 if that is not known.
func (j *jobs) eta(bytes int64, now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rate <= 0 || now.Sub(j.at) > speedFor {
		return 0
	}
	return time.Duration(float64(bytes) / j.rate * float64(time.Second))
}
