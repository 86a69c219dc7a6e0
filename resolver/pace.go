package resolver

import (
	"sync"
	"time"

	"allium/protocols/b3"
)

// pace is how fast a peer was: the throughput of one request, and the time from
// a request to the first byte of its answer.
type pace struct {
	mu   sync.Mutex
	rate float64 // bytes per second; 0: not measured
	rtt  time.Duration
}

// The measurement.
const (
	paceMemory = 500 * time.Millisecond // a request of this length counts for half
	paceLeast  = 4                      // groups that make a measurement
	paceShort  = time.Millisecond       // the shortest time that is told from none
)

// measured returns the rate in bytes per second, 0 when unknown, and the rtt.
func (p *pace) measured() (rate float64, rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate, p.rtt
}

// answered notes the time to a first byte: a shorter one at once, a longer one
// by and by.
func (p *pace) answered(rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rtt == 0 || rtt < p.rtt {
		p.rtt = rtt
		return
	}
	p.rtt += (rtt - p.rtt) / 4
}

// delivered notes that n groups came in that time after the first one.
func (p *pace) delivered(n int64, took time.Duration) {
	if n < paceLeast {
		return
	}
	rate := rateOf(n, took)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		p.rate = rate
		return
	}
	weight := float64(took) / float64(took+paceMemory)
	p.rate += max(weight, 0.1) * (rate - p.rate)
}

// rateOf is n groups in that time, in bytes per second.
func rateOf(n int64, took time.Duration) float64 {
	return float64(n*b3.GroupSize) / max(took, paceShort).Seconds()
}

// timeFor is how long n groups take at rate bytes per second.
func timeFor(n int64, rate float64) time.Duration {
	return time.Duration(float64(n*b3.GroupSize) / rate * float64(time.Second))
}
