package limits

import (
	"context"
	"math"
	"net/netip"
	"sync"
	"time"

	"allium/protocols/status"
)

// The constants of [Bandwidth].
const (
	bandwidthWaits   = 4096             // callers that wait; further ones are refused
	bandwidthQuantum = 64 << 10         // bytes that one key takes before the next key has its turn
	bandwidthEach    = 128 << 10        // bytes per second that each caller of Enter gets at least
	bandwidthBurst   = time.Second / 16 // how much of the rate is saved up while nobody waits
)

// Bandwidth bounds bytes per second, of all keys together. Keys that wait, such as peers and clients,
// take ring, so each gets the same share whatever it asks for; what some leave, others get. The rate
// may change at any time. Nobody waits under a lock, and nothing runs while nobody waits. Its methods
// are safe for concurrent use. A nil Bandwidth has no bound.
type Bandwidth struct {
	m       *meter
	callers permits // of Enter

	mu      sync.Mutex // guards what follows, and the size of callers; lock: breaker
	rate    float64    // bytes per second; 0: no bound
	near    bool       // the local network is bounded too
	tokens  float64    // bytes that may pass now
	at      time.Time  // when tokens was computed
	ring    []*bandwidthKey
	keys    map[string]*bandwidthKey // keys that wait
	waiting int
	queued  int         // bytes that wait
	timer   *time.Timer // ends when the next wait may be over; nil: nobody waits
}

// bandwidthKey is a key that waits.
type bandwidthKey struct {
	name    string
	waits   []*bandwidthWait // the oldest first
	turn    bool             // it is the turn of the key
	balance int              // bytes that the key may take in its turn
	queued  int              // bytes of waits
}

type bandwidthWait struct {
	n    int
	over chan struct{} // closed when the bytes may pass
}

// NewBandwidth returns a Bandwidth without a bound.
func NewBandwidth(r *Registry, s Spec) *Bandwidth {
	b := &Bandwidth{keys: map[string]*bandwidthKey{}}
	b.m = newMeter(s, KindRate, 1)
	b.m.size.Store(0)
	b.m.depth = func() int64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return int64(b.waiting)
	}
	b.callers.init(Spec{Name: s.Name}, KindGate, math.MaxInt64)
	r.list(b.m)
	return b
}

// Set changes the rate, in bytes per second; 0 is no bound. near says whether it also bounds what
// callers say is near. Waits go on at the new rate.
func (b *Bandwidth) Set(perSecond int64, near bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.rate, b.near = float64(max(0, perSecond)), near
	b.m.size.Store(max(0, perSecond))
	b.tokens = min(b.tokens, b.burst())
	b.grant()
	callers := int64(math.MaxInt64)
	if perSecond > 0 {
		callers = max(1, perSecond/bandwidthEach)
	}
	b.callers.Resize(callers)
}

// Enter waits until so few callers are inside that each gets bandwidthEach of the rate. A transfer that
// the other side ends when it is slow enters before it begins. The caller calls leave once. near is
// that of Wait.
func (b *Bandwidth) Enter(ctx context.Context, near bool) (leave func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	b.mu.Lock()
	bounded := !near || b.near
	b.mu.Unlock()
	if !bounded {
		return func() {}, nil
	}
	if !b.callers.try(1) {
		w, _ := b.callers.join(1, bandwidthWaits)
		if w == nil {
			return nil, b.m.reject(status.RateLimit, b.m.inUse(), time.Second)
		}
		if err := b.callers.await(ctx, w); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() { b.callers.leave(1) }), nil
}

// Bounds reports whether the rate is bounded now, for near clients or for all others.
func (b *Bandwidth) Bounds(near bool) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rate > 0 && (!near || b.near)
}

// Near reports whether an address is of the local network or of this machine.
func Near(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}

// Wait waits until n bytes of key may pass. near says that they go to, or come from, the local network.
// If that takes longer than most, Wait returns status.RateLimit, at once if it can tell; if ctx ends
// first, its error. The bytes then do not count.
func (b *Bandwidth) Wait(ctx context.Context, key string, near bool, n int, most time.Duration) error {
	if b == nil || n <= 0 {
		return nil
	}
	w, err := b.begin(key, near, n, most)
	if w == nil || err != nil {
		return err
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-w.over:
		return nil
	case <-late.C:
		err = b.m.reject(status.RateLimit, b.m.inUse(), most)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if b.leave(key, w) {
		return err
	}
	return nil // it was over at the same time
}

// begin returns nil if the bytes may pass now, or else the wait for them.
func (b *Bandwidth) begin(key string, near bool, n int, most time.Duration) (*bandwidthWait, error) {
	b.mu.Lock()
	if b.rate == 0 || near && !b.near {
		b.mu.Unlock()
		return nil, nil
	}
	b.refill(time.Now())
	if b.waiting == 0 && b.tokens >= float64(n) {
		b.tokens -= float64(n)
		b.mu.Unlock()
		return nil, nil
	}
	if wait := b.expected(key, n); b.waiting == bandwidthWaits || wait > most {
		b.mu.Unlock()
		return nil, b.m.reject(status.RateLimit, b.m.inUse(), max(0, wait-most))
	}
	defer b.mu.Unlock()
	k := b.keys[key]
	if k == nil {
		k = &bandwidthKey{name: key}
		b.keys[key] = k
		b.ring = append(b.ring, k)
	}
	w := &bandwidthWait{n: n, over: make(chan struct{})}
	k.waits = append(k.waits, w)
	k.queued, b.queued = k.queued+n, b.queued+n
	b.waiting++
	b.grant()
	return w, nil
}

// expected returns about how long n more bytes of a key wait: for everything that waits, or until every
// key has taken as much as this one. The caller holds mu.
func (b *Bandwidth) expected(key string, n int) time.Duration {
	ahead, keys := float64(n), float64(len(b.ring))
	if k := b.keys[key]; k != nil {
		ahead += float64(k.queued)
	} else {
		keys++
	}
	ahead = min(float64(b.queued+n), ahead*keys)
	return time.Duration((ahead - b.tokens) / b.rate * float64(time.Second))
}

// leave ends a wait. It returns false if the bytes may pass already.
func (b *Bandwidth) leave(key string, w *bandwidthWait) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[key]
	if k == nil {
		return false
	}
	for i, o := range k.waits {
		if o == w {
			k.waits = append(k.waits[:i], k.waits[i+1:]...)
			k.queued, b.queued = k.queued-w.n, b.queued-w.n
			b.waiting--
			b.grant()
			return true
		}
	}
	return false
}

// burst returns how many bytes are saved up while nobody waits.
func (b *Bandwidth) burst() float64 { return b.rate * bandwidthBurst.Seconds() }

// refill adds the bytes of the time since the last call. The caller holds mu.
func (b *Bandwidth) refill(now time.Time) {
	b.tokens += max(0, now.Sub(b.at).Seconds()) * b.rate
	if b.at.IsZero() || b.waiting == 0 {
		b.tokens = min(b.tokens, b.burst())
	}
	b.at = now
}

// grant lets the waits pass whose bytes are there, key by key, and sets the timer for the next one.
// Each call looks at a wait once for each quantum of its bytes. The caller holds mu.
func (b *Bandwidth) grant() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	for len(b.ring) > 0 {
		k := b.ring[0]
		if len(k.waits) == 0 {
			b.ring = b.ring[1:]
			delete(b.keys, k.name)
			continue
		}
		w := k.waits[0]
		switch {
		case b.rate == 0:
		case !k.turn:
			k.turn, k.balance = true, k.balance+bandwidthQuantum
			continue
		case k.balance < w.n:
			k.turn = false
			b.ring = append(b.ring[1:], k)
			continue
		case b.tokens < float64(w.n):
			missing := (float64(w.n) - b.tokens) / b.rate
			b.timer = time.AfterFunc(time.Duration(missing*float64(time.Second))+1, b.tick)
			return
		default:
			k.balance -= w.n
			b.tokens -= float64(w.n)
		}
		k.waits = k.waits[1:]
		k.queued, b.queued = k.queued-w.n, b.queued-w.n
		b.waiting--
		close(w.over)
	}
}

func (b *Bandwidth) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.grant()
}
