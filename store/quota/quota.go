// Package quota bounds how much the pins of each label protect.
//
// A pin counts the object, or with a recursive pin everything below it. Nothing of this is
// on disk: CountPins counts all pins when the store opens, and SetPins and DropPin keep the
// sums. A pin may exceed its quota only when the store opens with it; then it refuses what
// is new.
//
// One add: Quotas.Charge begins to count under a label. The bytes pass Charge.Reader, which
// takes them before they are stored and fails with quota when the label holds as much as it
// may. Quotas.SetPins measures what the pin protects and counts it in place of the charge.
// Release gives back what no pin took over.
package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// Validate returns an error for the first entry of list that is not a valid quota.
func Validate(list []string) error {
	_, err := parseAll(list)
	return err
}

// otherLabels is the entry that applies to every label without its own.
const otherLabels = "*"

// limit is the quota of one label.
type limit struct {
	label          string
	bytes, objects int64 // objects is 0 for any number
}

// parse parses "label=bytes[/objects]".
func parse(s string) (limit, error) {
	label, value, ok := strings.Cut(s, "=")
	size, count, counted := strings.Cut(value, "/")
	bytes, err := limits.ParseBytes(size)
	q := limit{label: label, bytes: int64(bytes)}
	if counted && err == nil {
		if q.objects, err = strconv.ParseInt(count, 10, 64); err == nil && q.objects < 1 {
			err = fmt.Errorf("%d objects: the least is 1", q.objects)
		}
	}
	if !ok || err != nil || q.bytes < 1 {
		return limit{}, fmt.Errorf("store.quotas has %q: want label=bytes or label=bytes/objects, "+
			"such as photos=10GiB/100000", s)
	}
	if err := meta.CheckLabel(label); err != nil {
		return limit{}, fmt.Errorf("store.quotas has %q: %w", s, err)
	}
	return q, nil
}

func parseAll(list []string) (map[string]limit, error) {
	qs := map[string]limit{}
	for _, s := range list {
		q, err := parse(s)
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

// Backend keeps the pins that are counted, and knows the objects that they protect.
type Backend interface {
	// Get, SetPins and DropPin are those of [meta.Objects] and [meta.Pins].
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	SetPins(pins []meta.Pin) error
	DropPin(root b3.Root, label string) (bool, error)
}

// Deps holds the dependencies of Quotas. Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Backend Backend

	// Node reads and verifies the directory root. It returns nil when root is absent or is no
	// directory, and an error that wraps meta.ErrDamagedDirectory when it is damaged.
	Node func(ctx context.Context, root b3.Root) (*manifest.Node, error)
}

// pinKey identifies a pin.
type pinKey struct {
	root  b3.Root
	label string
}

// Quotas counts what the pins of each label protect. Without quotas it does nothing. Its
// maps have an entry for each pin, and for each label in use, that has a quota. Its methods
// are safe for concurrent use.
type Quotas struct {
	backend Backend
	node    func(context.Context, b3.Root) (*manifest.Node, error)
	limits  map[string]limit
	usages  map[string][2]*limits.Usage // bytes and objects, nil when unbounded; none for "*"
	reject  *prometheus.CounterVec      // by kind
	pinLock chan struct{}               // a buffer of one; full while a pin is set or dropped

	mu   sync.Mutex            // lock: leaf
	used map[string]meta.Count // by label, with what charges hold
	pins map[pinKey]meta.Count
}

// New returns the quotas of a list of label=bytes[/objects].
func New(list []string, deps Deps) (*Quotas, error) {
	quotas, err := parseAll(list)
	if err != nil {
		return nil, err
	}
	q := &Quotas{
		backend: deps.Backend, node: deps.Node, limits: quotas, usages: map[string][2]*limits.Usage{},
		// bound: 1, the token
		pinLock: make(chan struct{}, 1), used: map[string]meta.Count{}, pins: map[pinKey]meta.Count{},
	}
	q.reject = env.CounterVec("store_quota_reject_total",
		"Adds and pins refused because their label reached its quota, by what ran out: bytes or objects.", "kind")
	env.Values(q.reject, "bytes", "objects")
	env.MustRegister(deps.Metrics, q.reject)
	for label, l := range quotas {
		if label == otherLabels {
			continue
		}
		name := "store.quota." + strconv.Quote(label)
		u := [2]*limits.Usage{}
		u[0] = deps.Limits.NewUsage(limits.Spec{
			Name: name, Path: "add, pin → what the label's pins protect (bytes)", Policy: "reject quota",
		}, l.bytes, func() int64 { return q.Usage(label).Bytes })
		if l.objects > 0 {
			u[1] = deps.Limits.NewUsage(limits.Spec{
				Name: name + ".objects", Path: "add, pin → what the label's pins protect", Policy: "reject quota",
			}, l.objects, func() int64 { return q.Usage(label).Objects })
		}
		q.usages[label] = u
	}
	return q, nil
}

// Usage returns what the pins of a label lead to, if the label has a quota.
func (q *Quotas) Usage(label string) meta.Count {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used[label]
}

// limitOf returns the quota of a label. ok is false when it has none.
func (q *Quotas) limitOf(label string) (l limit, ok bool) {
	if l, ok := q.limits[label]; ok && label != otherLabels {
		return l, true
	}
	if meta.Origin(label) != "" {
		return limit{}, false // what it leads to counts for meta.ClusterLabel too
	}
	l, ok = q.limits[otherLabels]
	return l, ok
}

// change subtracts less from the label's total and adds more, or returns quota. A change
// that does not grow the total is always allowed.
func (q *Quotas) change(label string, less, more meta.Count) error {
	l, ok := q.limitOf(label)
	if !ok {
		return nil
	}
	q.mu.Lock()
	was := q.used[label]
	now := was.Minus(less).Plus(more)
	kind := ""
	switch {
	case now.Bytes > l.bytes && now.Bytes > was.Bytes:
		kind = "bytes"
	case l.objects > 0 && now.Objects > l.objects && now.Objects > was.Objects:
		kind = "objects"
	case now == meta.Count{}:
		delete(q.used, label)
	default:
		q.used[label] = now
	}
	q.mu.Unlock()
	shown := q.usages[label]
	if kind == "" {
		for _, u := range shown {
			if u != nil {
				u.Grown()
			}
		}
		return nil
	}
	q.reject.WithLabelValues(kind).Inc()
	refused := status.Limit{Name: "store.quota." + strconv.Quote(otherLabels), Current: was.Bytes, Cap: l.bytes}
	have, limit := limits.Bytes(was.Bytes).Human(), limits.Bytes(l.bytes).Human()
	u := shown[0]
	if kind == "objects" {
		u = shown[1]
		refused.Current, refused.Cap = was.Objects, l.objects
		have, limit = strconv.FormatInt(was.Objects, 10), strconv.FormatInt(l.objects, 10)+" objects"
	}
	if u != nil {
		refused = u.Refuse()
	}
	return &status.Error{Outcome: status.Quota, Limit: &refused, Message: fmt.Sprintf(
		"the label %q holds %s of the %s that store.quotas allows it; unpin something of it, or raise the quota",
		label, have, limit)}
}

// Pinning is a pin that is to be set.
type Pinning struct {
	Pin    meta.Pin
	Size   int64   // bytes of the object
	Charge *Charge // what the add so far counted, which the pin takes over; may be nil
}

// SetPins sets pins, and returns the error of each. If the label of a pin has a quota, what the pin
// protects counts in place of its charge, and of the pin that it replaces.
func (q *Quotas) SetPins(ctx context.Context, pins []Pinning) []error {
	errs := make([]error, len(pins))
	if len(q.limits) > 0 {
		n := 0
		for chunk := range slices.Chunk(pins, pinsAtOnce) {
			n += copy(errs[n:], q.setCounted(ctx, chunk))
		}
		return errs
	}
	all := make([]meta.Pin, len(pins))
	for i, p := range pins {
		all[i] = p.Pin
	}
	if err := q.backend.SetPins(all); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// pinsAtOnce bounds the pins of one call of the backend where there are quotas. It sets them with one sync: all of them
// are set, or none is.
const pinsAtOnce = 512

// counted is a pin that is counted and about to be set.
type counted struct {
	pinKey
	i        int        // of the pins of the call
	old, now meta.Count // of the pin that it replaces, and of it
}

// setCounted sets pins with one call of the backend, where there are quotas.
func (q *Quotas) setCounted(ctx context.Context, pins []Pinning) []error {
	errs, sizes := make([]error, len(pins)), make([]meta.Count, len(pins))
	for i, p := range pins {
		sizes[i], errs[i] = q.measure(ctx, p.Pin, p.Size)
	}
	select {
	case q.pinLock <- struct{}{}:
	case <-ctx.Done():
		return slices.Repeat([]error{ctx.Err()}, len(pins))
	}
	defer func() { <-q.pinLock }()
	var set []counted
	var all []meta.Pin
	before := map[pinKey]meta.Count{} // what the latest pin of each key counts: one may come twice
	for i, p := range pins {
		if errs[i] != nil {
			continue
		}
		c := counted{pinKey: pinKey{p.Pin.Root, p.Pin.Label}, i: i, now: sizes[i]}
		var twice bool
		if c.old, twice = before[c.pinKey]; !twice {
			q.mu.Lock()
			c.old = q.pins[c.pinKey]
			q.mu.Unlock()
		}
		if errs[i] = q.change(c.label, p.Charge.total().Plus(c.old), c.now); errs[i] != nil {
			continue
		}
		p.Charge.clear()
		before[c.pinKey] = c.now
		set, all = append(set, c), append(all, p.Pin)
	}
	if err := q.backend.SetPins(all); err != nil {
		for _, c := range slices.Backward(set) {
			_ = q.change(c.label, c.now, c.old) // the old count fitted before
			errs[c.i] = err
		}
		return errs
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range set {
		if _, ok := q.limitOf(c.label); ok {
			q.pins[c.pinKey] = c.now
		}
	}
	return errs
}

// DropPin drops a pin and what it counts, and reports whether the pin existed.
func (q *Quotas) DropPin(ctx context.Context, root b3.Root, label string) (bool, error) {
	select {
	case q.pinLock <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-q.pinLock }()
	ok, err := q.backend.DropPin(root, label)
	if err != nil || !ok {
		return ok, err
	}
	key := pinKey{root, label}
	q.mu.Lock()
	old := q.pins[key]
	delete(q.pins, key)
	q.mu.Unlock()
	return true, q.change(label, old, meta.Count{})
}
