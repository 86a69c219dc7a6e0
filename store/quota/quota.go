// Package quota counts what the pins of each label lead to, and refuses what passes
// the quota of its label.
package quota

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// Validate reports the first entry of list that is no quota.
func Validate(list []string) error {
	_, err := parseAll(list)
	return err
}

// otherLabels is the label of a quota that each label without one of its own
// has.
const otherLabels = "*"

// limit bounds what the pins of one label lead to.
type limit struct {
	label          string
	bytes, objects int64 // objects 0: any number
}

// parse reads "label=bytes[/objects]".
func parse(s string) (limit, error) {
	label, registry, ok := strings.Cut(s, "=")
	size, count, counted := strings.Cut(registry, "/")
	bytes, err := limits.ParseBytes(size)
	q := limit{label: label, bytes: int64(bytes)}
	if counted && err == nil {
		if q.objects, err = strconv.ParseInt(count, 10, 64); err == nil && q.objects < 1 {
			err = fmt.Errorf("no objects at all")
		}
	}
	if !ok || err != nil || q.bytes < 1 {
		return limit{}, fmt.Errorf("store.quotas has %q: want label=bytes or label=bytes/objects, such as photos=10GiB/100000", s)
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

// Backend is what quotas need of the backend of a store.
type Backend interface {
	Get(root b3.Root) (meta.Entry, bool, error)
	SetPin(p meta.Pin) error
	DropPin(root b3.Root, label string) (bool, error)
}

// Deps are what Quotas use of the store. Metrics and Limits may be nil.
type Deps struct {
	Backend Backend
	Metrics prometheus.Registerer
	Limits  *limits.Registry

	// Node reads the directory root, verified. It returns nil when root is not here
	// or no directory. meta.ErrDamagedDirectory is in the chain when it is damaged.
	Node func(ctx context.Context, root b3.Root) (*manifest.Node, error)
}

// pinKeyed is a pin by its names.
type pinKeyed struct {
	root  b3.Root
	label string
}

// Quotas counts what labels hold. What a pin counts is worked out when it is
// made, and for all pins when the store opens: nothing of it is on disk, so
// nothing can be lost. Without quotas it does nothing.
//
// Its maps hold an entry for each pin and each label that has a quota.
type Quotas struct {
	backend Backend
	node    func(context.Context, b3.Root) (*manifest.Node, error)
	limits  map[string]limit
	shown   map[string][2]*limits.Usage // bytes and objects, nil: not bounded; none for "*"
	reject  *prometheus.CounterVec      // kind
	turn    chan struct{}               // one token: who holds it sets or drops a pin

	mu   sync.Mutex
	used map[string]meta.Count // by label, with what charges hold
	pins map[pinKeyed]meta.Count
}

// New returns the quotas of a list of label=bytes[/objects].
func New(list []string, deps Deps) (*Quotas, error) {
	quotas, err := parseAll(list)
	if err != nil {
		return nil, err
	}
	q := &Quotas{
		backend: deps.Backend, node: deps.Node, limits: quotas, shown: map[string][2]*limits.Usage{},
		turn: make(chan struct{}, 1), used: map[string]meta.Count{}, pins: map[pinKeyed]meta.Count{}, // bound: 1, the token
	}
	q.reject = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "store_quota_reject_total", Help: "Adds and pins refused since their label holds as much as it may, by what ran out: bytes or objects.",
	}, []string{"kind"})
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(q.reject)
	}
	for label, l := range quotas {
		if label == otherLabels {
			continue
		}
		name := "store.quota." + strconv.Quote(label)
		u := [2]*limits.Usage{}
		u[0] = deps.Limits.NewUsage(limits.Spec{Name: name, Path: "add, pin → what the label's pins lead to (bytes)", Policy: "reject quota"},
			l.bytes, func() int64 { return q.usage(label).Bytes })
		if l.objects > 0 {
			u[1] = deps.Limits.NewUsage(limits.Spec{Name: name + ".objects", Path: "add, pin → what the label's pins lead to", Policy: "reject quota"},
				l.objects, func() int64 { return q.usage(label).Objects })
		}
		q.shown[label] = u
	}
	return q, nil
}

func (q *Quotas) usage(label string) meta.Count {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used[label]
}

// of is the quota of a label.
func (q *Quotas) of(label string) (limit, bool) {
	if l, ok := q.limits[label]; ok && label != otherLabels {
		return l, true
	}
	l, ok := q.limits[otherLabels]
	return l, ok
}

// replace counts more for a label in place of less, or returns quota. What
// makes it no more than it was is never refused.
func (q *Quotas) replace(label string, less, more meta.Count) error {
	l, ok := q.of(label)
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
	refused := status.Limit{Name: "store.quota." + strconv.Quote(otherLabels), Current: was.Bytes, Cap: l.bytes}
	have, most := limits.Bytes(was.Bytes).Human(), limits.Bytes(l.bytes).Human()
	u := shown[0]
	if kind == "objects" {
		u = shown[1]
		refused.Current, refused.Cap = was.Objects, l.objects
		have, most = strconv.FormatInt(was.Objects, 10), strconv.FormatInt(l.objects, 10)+" objects"
	}
	if u != nil {
		refused = u.Refuse()
	}
	return &status.Error{Outcome: status.Quota, Limit: &refused, Message: fmt.Sprintf(
		"store: the label %q holds %s of the %s that store.quotas allows it; unpin something of it, or raise the quota", label, have, most)}
}

// SetPin sets a pin whose content is weighed, if its label has a quota, in place
// of what charge holds and what the pin it replaces counted.
func (q *Quotas) SetPin(ctx context.Context, p meta.Pin, size int64, charge *Charge) error {
	if len(q.limits) == 0 {
		return q.backend.SetPin(p)
	}
	now, err := q.weigh(ctx, p, size)
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
	less := charge.all().Plus(old)
	if err := q.replace(p.Label, less, now); err != nil {
		return err
	}
	charge.forget()
	if err := q.backend.SetPin(p); err != nil {
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

// DropPin drops a pin and what it counted.
func (q *Quotas) DropPin(ctx context.Context, root b3.Root, label string) (bool, error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-q.turn }()
	ok, err := q.backend.DropPin(root, label)
	if err != nil || !ok {
		return ok, err
	}
	key := pinKeyed{root, label}
	q.mu.Lock()
	old := q.pins[key]
	delete(q.pins, key)
	q.mu.Unlock()
	return true, q.replace(label, old, meta.Count{})
}
