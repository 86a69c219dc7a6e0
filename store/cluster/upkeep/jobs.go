package upkeep

import (
	"sync"
	"sync/atomic"
	"time"
)

// jobs is the state of the jobs that send copies, without their objects. It is safe for concurrent use.
type jobs struct {
	full   atomic.Bool // a send was not queued in this tick
	moving atomic.Bool // a job that moves copies is queued or runs

	mu   sync.Mutex // lock: leaf
	err  error      // of the latest job, nil if that succeeded
	rate float64    // bytes per second of the latest sends, a moving average
	at   time.Time  // of the latest one
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

// sent notes that a send of so many bytes took so long.
func (j *jobs) sent(bytes int64, took time.Duration, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := float64(bytes) / max(took.Seconds(), .001)
	if j.rate > 0 && now.Sub(j.at) < speedFor {
		r = j.rate + (r-j.rate)/8
	}
	j.rate, j.at = r, now
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
