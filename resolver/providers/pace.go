package providers

import (
	"sync"
	"time"

	"allium/protocols/b3"
)

// Pace is how fast a peer was: the throughput of one request, and the time from
// a request to the first byte of its answer. The zero value knows nothing. Its
// methods may be called from any goroutine.
type Pace struct {
	mu   sync.Mutex
	rate float64 // bytes per second; 0: not measured
	rtt  time.Duration
}

// The measurement.
const (
	paceMemory = 500 * time.Millisecond // a request of this length counts for half
	paceGroups = 4                      // groups that make a measurement
	paceShort  = time.Millisecond       // the shortest time that is told from none
)

// Measured returns the rate in bytes per second, 0 when unknown, and the rtt.
func (p *Pace) Measured() (rate float64, rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate, p.rtt
}

// Answered notes the time to a first byte: a shorter one at once, a longer one
// by and by.
func (p *Pace) Answered(rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rtt == 0 || rtt < p.rtt {
		p.rtt = rtt
		return
	}
	p.rtt += (rtt - p.rtt) / 4
}

// Delivered notes that n groups came in that time after the first one.
func (p *Pace) Delivered(n int64, took time.Duration) {
	if n < paceGroups {
		return
	}
	rate := float64(n*b3.GroupSize) / max(took, paceShort).Seconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		p.rate = rate
		return
	}
	weight := float64(took) / float64(took+paceMemory)
	p.rate += max(weight, 0.1) * (rate - p.rate)
}
