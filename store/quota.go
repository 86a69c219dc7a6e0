package store

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// otherLabels is the label of a quota that each label without one of its own
// has.
const otherLabels = "*"

// quota bounds what the pins of one label lead to.
type quota struct {
	label          string
	bytes, objects int64 // objects 0: any number
}

// parseQuota reads "label=bytes[/objects]".
func parseQuota(s string) (quota, error) {
	label, registry, ok := strings.Cut(s, "=")
	size, count, counted := strings.Cut(registry, "/")
	bytes, err := limits.ParseBytes(size)
	q := quota{label: label, bytes: int64(bytes)}
	if counted && err == nil {
		if q.objects, err = strconv.ParseInt(count, 10, 64); err == nil && q.objects < 1 {
			err = fmt.Errorf("no objects at all")
		}
	}
	if !ok || err != nil || q.bytes < 1 {
		return quota{}, fmt.Errorf("store.quotas has %q: want label=bytes or label=bytes/objects, such as photos=10GiB/100000", s)
	}
	if err := meta.CheckLabel(label); err != nil {
		return quota{}, fmt.Errorf("store.quotas has %q: %w", s, err)
	}
	return q, nil
}

func parseQuotas(list []string) (map[string]quota, error) {
	qs := map[string]quota{}
	for _, s := range list {
		q, err := parseQuota(s)
		if err != nil {
			return nil, err
		}
		if _, twice := qs[q.label]; twice {
			return nil, fmt.Errorf("store.quotas has two entries for %q", q.label)
		}
		qs[q.label] = q
	}
	return qs, nil
}

// load is what is counted against a quota.
type load struct{ bytes, objects int64 }

func (l *load) add(m load) {
	l.bytes += m.bytes
	l.objects += m.objects
}

func (l *load) sub(m load) { l.add(load{-m.bytes, -m.objects}) }

// pinKeyed is a pin by its names.
type pinKeyed struct {
	root  b3.Root
	label string
}

// quotas counts what labels hold. What a pin counts is worked out when it is
// made, and for all pins when the store opens: nothing of it is on disk, so
// nothing can be lost. Without quotas it does nothing.
//
// Its maps hold an entry for each pin and each label that has a quota.
type quotas struct {
	limits map[string]quota
	shown  map[string][2]*limits.Usage // bytes and objects, nil: not bounded; none for "*"
	reject *prometheus.CounterVec      // kind
	turn   chan struct{}               // one token: who holds it sets or drops a pin

	mu   sync.Mutex
	used map[string]load // by label, with what charges hold
	pins map[pinKeyed]load
}

func newQuotas(registry map[string]quota, deps Deps) *quotas {
	q := &quotas{limits: registry, shown: map[string][2]*limits.Usage{}, turn: make(chan struct{}, 1), used: map[string]load{}, pins: map[pinKeyed]load{}}
	q.reject = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "store_quota_reject_total", Help: "Adds and pins refused since their label holds as much as it may, by what ran out: bytes or objects.",
	}, []string{"kind"})
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(q.reject)
	}
	for label, l := range registry {
		if label == otherLabels {
			continue
		}
		name := "store.quota." + strconv.Quote(label)
		u := [2]*limits.Usage{}
		u[0] = deps.Limits.NewUsage(limits.Spec{Name: name, Path: "add, pin → what the label's pins lead to (bytes)", Policy: "reject quota"},
			l.bytes, func() int64 { return q.usage(label).bytes })
		if l.objects > 0 {
			u[1] = deps.Limits.NewUsage(limits.Spec{Name: name + ".objects", Path: "add, pin → what the label's pins lead to", Policy: "reject quota"},
				l.objects, func() int64 { return q.usage(label).objects })
		}
		q.shown[label] = u
	}
	return q
}

func (q *quotas) usage(label string) load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used[label]
}

// of is the quota of a label.
func (q *quotas) of(label string) (quota, bool) {
	if l, ok := q.limits[label]; ok && label != otherLabels {
		return l, true
	}
	l, ok := q.limits[otherLabels]
	return l, ok
}

// replace counts more for a label in place of less, or returns quota. What
// makes it no more than it was is never refused.
func (q *quotas) replace(label string, less, more load) error {
	l, ok := q.of(label)
	if !ok {
		return nil
	}
	q.mu.Lock()
	was := q.used[label]
	now := was
	now.sub(less)
	now.add(more)
	kind := ""
	switch {
	case now.bytes > l.bytes && now.bytes > was.bytes:
		kind = "bytes"
	case l.objects > 0 && now.objects > l.objects && now.objects > was.objects:
		kind = "objects"
	case now == load{}:
		delete(q.used, label)
	default:
		q.used[label] = now
	}
	q.mu.Unlock()
	shown := q.shown[label]
	if kind == "" {
		for _, u := range shown {
			if u != nil {
				u.Grown()
			}
		}
		return nil
	}
	q.reject.WithLabelValues(kind).Inc()
	limit := status.Limit{Name: "store.quota." + strconv.Quote(otherLabels), Current: was.bytes, Cap: l.bytes}
	have, most := limits.Bytes(was.bytes).Human(), limits.Bytes(l.bytes).Human()
	u := shown[0]
	if kind == "objects" {
		u = shown[1]
		limit.Current, limit.Cap = was.objects, l.objects
		have, most = strconv.FormatInt(was.objects, 10), strconv.FormatInt(l.objects, 10)+" objects"
	}
	if u != nil {
		limit = u.Refuse()
	}
	return &status.Error{Outcome: status.Quota, Limit: &limit, Message: fmt.Sprintf(
		"store: the label %q holds %s of the %s that store.quotas allows it; unpin something of it, or raise the quota", label, have, most)}
}

// Charge is what an add has stored of new bytes under a label, counted against
// its quota until the add's pin counts it all, or Release. It is nil, and takes
// anything, where the label has no quota. It is safe for concurrent use.
type Charge struct {
	q     *quotas
	label string

	mu   sync.Mutex
	took load
}

// Charge begins to count against the quota of a label.
func (s *Store) Charge(label string) *Charge {
	if _, ok := s.quotas.of(label); !ok {
		return nil
	}
	return &Charge{q: s.quotas, label: label}
}

// Fits returns quota when an object of so many bytes could not be stored. It
// takes nothing.
func (c *Charge) Fits(bytes int64) error {
	if c == nil {
		return nil
	}
	l := load{bytes, 1}
	if err := c.q.replace(c.label, load{}, l); err != nil {
		return err
	}
	return c.q.replace(c.label, l, load{})
}

// take counts l, or returns quota.
func (c *Charge) take(l load) error {
	if c == nil {
		return nil
	}
	if err := c.q.replace(c.label, load{}, l); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took.add(l)
	return nil
}

func (c *Charge) give(l load) {
	if c == nil {
		return
	}
	_ = c.q.replace(c.label, l, load{}) // less is never refused
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took.sub(l)
}

// Release gives back what was taken and not handed to a pin.
func (c *Charge) Release() {
	if c != nil {
		c.give(c.all())
	}
}

func (c *Charge) all() load {
	if c == nil {
		return load{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took
}

// charged counts a stream before it is handed on.
type charged struct {
	c *Charge
	r io.Reader
	n int64
}

func (r *charged) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		if err := r.c.take(load{bytes: int64(n)}); err != nil {
			return 0, err
		}
		r.n += int64(n)
	}
	return n, err
}

// settle ends the count of a stream: what turned out to be there is given back.
func (r *charged) settle(isNew bool) {
	if !isNew {
		r.c.give(load{bytes: r.n})
		return
	}
	r.c.stored()
}

// stored counts one object of which the bytes are counted. It was
// stored, so that it is not refused any more: the next one is.
func (c *Charge) stored() {
	if c == nil {
		return
	}
	c.q.mu.Lock()
	u := c.q.used[c.label]
	u.objects++
	c.q.used[c.label] = u
	c.q.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took.objects++
}

// setPin sets a pin whose content is weighed, if its label has a quota, in place
// of what charge holds and what the pin it replaces counted.
func (s *Store) setPin(ctx context.Context, p meta.Pin, size int64, charge *Charge) error {
	q := s.quotas
	if len(q.limits) == 0 {
		return s.backend.SetPin(p)
	}
	now, err := s.weigh(ctx, p, size)
	if err != nil {
		return err
	}
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.turn }()
	key := pinKeyed{p.Root, p.Label}
	q.mu.Lock()
	old := q.pins[key]
	q.mu.Unlock()
	less := charge.all()
	less.add(old)
	if err := q.replace(p.Label, less, now); err != nil {
		return err
	}
	charge.forget()
	if err := s.backend.SetPin(p); err != nil {
		_ = q.replace(p.Label, now, old) // it was counted before
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.of(p.Label); ok {
		q.pins[key] = now
	}
	return nil
}

// forget makes what was taken the pin's.
func (c *Charge) forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = load{}
}

// dropPin drops a pin and what it counted.
func (s *Store) dropPin(ctx context.Context, root b3.Root, label string) (bool, error) {
	q := s.quotas
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-q.turn }()
	ok, err := s.backend.DropPin(root, label)
	if err != nil || !ok {
		return ok, err
	}
	key := pinKeyed{root, label}
	q.mu.Lock()
	old := q.pins[key]
	delete(q.pins, key)
	q.mu.Unlock()
	return true, q.replace(label, old, load{})
}
