package limits

import (
	"math"
	"sync"
	"time"
)

// drainRate estimates how fast a limit frees what is in use. It is a moving average
// over windows of drainWindow, in which the newest window weighs a quarter; a longer
// window weighs as much as the windows that fit into it.
//
// While nothing is freed, the rate is at most what was freed last ÷ the time since then.
// So a limit that stands still is not said to be as fast as it was.
// Time in which nothing is in use does not count, as then nothing can be freed.
type drainRate struct {
	mu     sync.Mutex // guards what follows; lock: leaf
	start  instant    // of the present window
	last   instant    // when something was freed last
	step   int64      // how much was freed last; 0: nothing was freed yet
	n      int64      // freed in the present window
	perSec float64    // 0: not known yet
}

// instant is a time of the monotonic clock alone, which is quicker to read than a time.Time.
type instant time.Duration

var processStart = time.Now()

func clock() instant { return instant(time.Since(processStart)) }

const (
	drainWindow = 100 * time.Millisecond
	longestWait = time.Hour // that is estimated
	quietTimes  = 8         // times the time in which one is freed: then the limit was not in use
)

// begin notes that something is in use and nothing was before. If much more time has passed since
// the last was freed than the rate takes for one, that time leaves the window. Shorter
// times count: a queue whose items are taken at once is empty most of the time, and its
// consumers set the rate.
func (d *drainRate) begin(now instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.perSec <= 0 {
		return
	}
	usual := min(float64(d.step)/d.perSec, longestWait.Seconds())
	idle := time.Duration(now-d.last) - time.Duration(usual*float64(time.Second))
	if idle > drainWindow && idle.Seconds() > quietTimes*usual {
		d.start, d.last = d.start+instant(idle), d.last+instant(idle)
	}
}

// done counts n as freed.
func (d *drainRate) done(n int64, now instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.step == 0 {
		d.start = now
	}
	d.n += n
	d.last, d.step = now, n
	age := time.Duration(now - d.start)
	if age < drainWindow {
		return
	}
	rate := float64(d.n) / age.Seconds()
	if d.perSec == 0 {
		d.perSec = rate
	} else {
		d.perSec += (rate - d.perSec) * (1 - math.Pow(0.75, float64(age)/float64(drainWindow)))
	}
	d.start, d.n = now, 0
}

// wait estimates how long it takes until n more have been freed. It returns 0 if
// nothing is known yet.
func (d *drainRate) wait(n int64) time.Duration { return d.waitAt(n, clock()) }

func (d *drainRate) waitAt(n int64, now instant) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.perSec <= 0 {
		return 0
	}
	perSec := d.perSec
	if quiet := time.Duration(now - d.last); quiet > drainWindow {
		perSec = min(perSec, float64(d.step)/quiet.Seconds())
	}
	return time.Duration(min(float64(n)/perSec, longestWait.Seconds()) * float64(time.Second))
}
