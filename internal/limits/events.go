package limits

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// Events delivers events from publishers to subscribers. Each event belongs to a [Topic], and each [Subscription] has
// its own bounded queue for the topics that it names. A publisher never waits: when a queue is full, the oldest event
// in it is dropped, and its subscriber learns how many it lost before the next event. With several publishers, two
// subscribers may get two events in a different order; the events of one publisher keep theirs. The methods may be
// called concurrently.
type Events[T any] struct {
	m      *meter
	gate   *Gate // one place for each subscription
	log    *slog.Logger
	each   int
	topics []*Topic[T]
	lost   atomic.Int64 // events dropped since the last warning

	mu   sync.Mutex // guards subs and end, and the lists of the topics when they are replaced; lock: leaf
	subs []*Subscription[T]
	end  error // set by Close
}

// EventsConfig says what Events delivers, and its bounds.
type EventsConfig struct {
	Topics      []string     // the names of all topics; no other limit of the registry has a topic of these names
	Each        int          // how many events wait for each subscriber (≥ 1)
	Subscribers int64        // how many subscriptions there may be (≥ 1); the next is refused with busy
	Log         *slog.Logger // for the warnings of Run; nil discards
}

// Topic is one kind of events.
type Topic[T any] struct {
	loss *topicLoss
	subs atomic.Pointer[[]*Subscription[T]] // nil: none; a list is replaced, never changed
}

// topicLoss counts the events of a topic that subscribers lost.
type topicLoss struct {
	name string
	n    atomic.Int64
}

// NewEvents lists two limits: queue bounds the events that wait for each subscriber,
// and subscribers the subscriptions. Current and peak of queue are those of the
// longest queue, and what it rejected are the events dropped. The registry also counts
// those by topic in the metric bus_lagged_total.
func NewEvents[T any](r *Registry, queue, subscribers Spec, c EventsConfig) *Events[T] {
	e := &Events[T]{each: c.Each, log: c.Log, gate: r.NewGate(subscribers, c.Subscribers, 0)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.m = r.add(queue, KindQueue, int64(c.Each), e.longest)
	for _, name := range c.Topics {
		loss := &topicLoss{name: name}
		r.listTopic(loss)
		e.topics = append(e.topics, &Topic[T]{loss: loss})
	}
	return e
}

// Topic returns the topic of that name, or nil if there is none.
func (e *Events[T]) Topic(name string) *Topic[T] {
	for _, t := range e.topics {
		if t.loss.name == name {
			return t
		}
	}
	return nil
}

// Subscribe returns a subscription to the events of some topics that are published
// from now on, or of all topics if none is named. It returns bad_request for an
// unknown topic, busy if there are too many subscriptions, and the error of Close
// after that. The caller calls [Subscription.Close].
func (e *Events[T]) Subscribe(topics ...string) (*Subscription[T], error) {
	chosen, err := e.choose(topics)
	if err != nil {
		return nil, err
	}
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	s := &Subscription[T]{
		e: e, topics: chosen, wake: make(chan struct{}, 1), queue: make([]published[T], e.each),
	}
	if err := e.add(s); err != nil {
		e.gate.Leave()
		return nil, err
	}
	return s, nil
}

// choose returns the topics of these names, each once.
func (e *Events[T]) choose(names []string) ([]*Topic[T], error) {
	if len(names) == 0 {
		return e.topics, nil
	}
	var chosen []*Topic[T]
	for _, name := range names {
		t := e.Topic(name)
		switch {
		case t == nil:
			return nil, status.Errorf(status.BadRequest, "there is no topic %q. Use one of %s", name, e.names())
		case !slices.Contains(chosen, t):
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// names returns the names of all topics, for messages.
func (e *Events[T]) names() string {
	names := make([]string, len(e.topics))
	for i, t := range e.topics {
		names[i] = t.loss.name
	}
	return strings.Join(names, ", ")
}

// add adds a subscription, or returns the error of Close.
func (e *Events[T]) add(s *Subscription[T]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end != nil {
		return e.end
	}
	e.subs = append(e.subs, s)
	for _, t := range s.topics {
		t.set(append(t.list(), s))
	}
	return nil
}

// remove removes a subscription.
func (e *Events[T]) remove(s *Subscription[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subs = without(e.subs, s)
	for _, t := range s.topics {
		t.set(without(t.list(), s))
	}
}

// without removes s from all.
func without[T any](all []*Subscription[T], s *Subscription[T]) []*Subscription[T] {
	if i := slices.Index(all, s); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// list returns a copy of the topic's subscriptions.
func (t *Topic[T]) list() []*Subscription[T] {
	if all := t.subs.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

// set makes all the topic's subscriptions. The caller holds the lock of Events.
func (t *Topic[T]) set(all []*Subscription[T]) {
	if len(all) == 0 {
		t.subs.Store(nil)
		return
	}
	t.subs.Store(&all)
}

// Close ends every subscription with err, after the events that wait in its queue.
// Events published later are dropped and not counted. Further calls do nothing.
func (e *Events[T]) Close(err error) {
	e.mu.Lock()
	var subs []*Subscription[T]
	if e.end == nil {
		e.end, subs = err, slices.Clone(e.subs)
		for _, t := range e.topics {
			t.subs.Store(nil)
		}
	}
	e.mu.Unlock()
	for _, s := range subs {
		s.finish(err)
	}
}

// longest returns how many events wait in the longest queue.
func (e *Events[T]) longest() int64 {
	e.mu.Lock()
	subs := slices.Clone(e.subs)
	e.mu.Unlock()
	most := 0
	for _, s := range subs {
		most = max(most, s.Len())
	}
	return int64(most)
}

// lagWarnEvery is the shortest time between two warnings about lost events.
const lagWarnEvery = 5 * time.Second

// Run warns in the log when subscribers have lost events, at most once in 5 seconds,
// with the number lost since the last warning. It returns nil when ctx is done.
func (e *Events[T]) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(lagWarnEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if lost := e.lost.Swap(0); lost > 0 {
			e.log.Warn("readers of events lag behind, and lost the oldest ones", "queue", e.m.spec.Name, "lost", lost)
		}
	}
}

// Wanted reports whether the topic has a subscriber. A publisher asks before it makes
// an event that is expensive to make.
func (t *Topic[T]) Wanted() bool { return t.subs.Load() != nil }

// Publish puts v in the queue of every subscriber of the topic. It never waits for a
// subscriber, and costs one load of a pointer if there is none. It allocates nothing.
func (t *Topic[T]) Publish(v T) {
	subs := t.subs.Load()
	if subs == nil {
		return
	}
	for _, s := range *subs {
		s.put(published[T]{t, v})
	}
}
