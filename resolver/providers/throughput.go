package providers

import (
	"sync"
	"time"

	"allium/protocols/b3"
)

// Throughput measures one peer: the bytes per second of a request, and the time
// from a request to the first byte of its answer. The zero value has no
// measurement. Its methods are safe for concurrent use.
type Throughput struct {
	mu   sync.Mutex // lock: leaf
	rate float64    // bytes per second; 0 when not measured
	rtt  time.Duration
}

// Constants of the moving average.
const (
	halfWeight    = 500 * time.Millisecond // a request of this length has half of the weight
	sampleGroups  = 4                      // a shorter answer is not measured, unless it takes sampleTime
	sampleTime    = 250 * time.Millisecond
	shortestClock = time.Millisecond // shorter times are not told apart by the clock
)

// Measured returns the rate in bytes per second, 0 when unknown, and the time to
// the first byte.
func (p *Throughput) Measured() (rate float64, rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate, p.rtt
}

// Answered records the time to a first byte. A shorter time replaces the old one;
// a longer one moves it by a quarter of the difference.
func (p *Throughput) Answered(rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rtt == 0 || rtt < p.rtt {
		p.rtt = rtt
		return
	}
	p.rtt += (rtt - p.rtt) / 4
}

// Delivered records that n groups arrived within the time took, which begins with
// the arrival of the group before them.
func (p *Throughput) Delivered(n int64, took time.Duration) {
	if n < 1 || n < sampleGroups && took < sampleTime {
		return
	}
	rate := float64(n*b3.GroupSize) / max(took, shortestClock).Seconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		p.rate = rate
		return
	}
	weight := float64(took) / float64(took+halfWeight)
	p.rate += max(weight, 0.1) * (rate - p.rate)
}
