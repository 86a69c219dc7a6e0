package events

import (
	"context"
	"reflect"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
)

// subscribe reads some topics.
func subscribe(t *testing.T, e *Events, topics ...string) *limits.Subscription[*api.Event] {
	t.Helper()
	s, err := e.Source().Subscribe(topics...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next returns the next event, which is of that topic and kind.
func next(t *testing.T, s *limits.Subscription[*api.Event], topic api.Topic, kind api.EventKind) *api.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what was published waits already
	e, lagged, err := s.Next(ctx)
	if err != nil || lagged != 0 {
		t.Fatalf("%v after %d lost", err, lagged)
	}
	if e.Topic != topic || e.Kind != kind || e.At.IsZero() || e.At.Location() != time.UTC {
		t.Errorf("got %+v, want %s of %s", e, kind, topic)
	}
	return e
}

// TestReadiness: only gates that change are told, each as it is then.
func TestReadiness(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	s := subscribe(t, e)
	gates := []api.Gate{{Name: "a", Ready: true, Have: 1, Need: 1}, {Name: "b", Need: 1, Fix: "wait"}}
	e.Readiness(api.Readiness{Gates: gates})
	if g := next(t, s, api.TopicReadiness, api.EventOpened).Gate; g == nil || *g != gates[0] {
		t.Errorf("got %+v", g)
	}
	e.Readiness(api.Readiness{Gates: gates})
	gates[0].Ready, gates[1].Ready = false, true
	e.Readiness(api.Readiness{Gates: gates})
	shut := next(t, s, api.TopicReadiness, api.EventShut).Gate
	opened := next(t, s, api.TopicReadiness, api.EventOpened).Gate
	gates[0].Name, gates[1].Name = "other", "other" // an event does not change
	if shut.Name != "a" || opened.Name != "b" || s.Len() != 0 {
		t.Errorf("shut is %+v, opened %+v, and %d more", shut, opened, s.Len())
	}
}

// TestReadinessUnread: what changes while nobody reads is not told later.
func TestReadinessUnread(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	e.Readiness(api.Readiness{Gates: []api.Gate{{Name: "a", Ready: true}}})
	s := subscribe(t, e, "readiness")
	e.Readiness(api.Readiness{Gates: []api.Gate{{Name: "a", Ready: true}}})
	if s.Len() != 0 {
		t.Errorf("%d events", s.Len())
	}
}

// TestPinsAndTransfers: the members of events of pins and transfers.
func TestPinsAndTransfers(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	pins, transfers := subscribe(t, e, "pins"), subscribe(t, e, "transfers")
	root := b3.Sum([]byte("x"))
	e.PinAdded(root, "photos", true)
	e.PinRemoved(root, "photos")
	pin := api.PinEvent{Root: root, Label: "photos", Recursive: true}
	if p := next(t, pins, api.TopicPins, api.EventAdded).Pin; *p != pin {
		t.Errorf("got %+v", p)
	}
	pin.Recursive = false
	if p := next(t, pins, api.TopicPins, api.EventRemoved).Pin; *p != pin {
		t.Errorf("got %+v", p)
	}
	of := resolver.TransferEvent{Root: root, LookupID: 0xab, Tree: true}
	e.Transfer(of)
	of.Ended, of.Outcome, of.Bytes, of.Took = true, status.NotFound, 7, 1500*time.Microsecond
	e.Transfer(of)
	want := api.TransferEvent{Root: root, LookupID: of.LookupID.String(), Tree: true}
	if v := next(t, transfers, api.TopicTransfers, api.EventBegun).Transfer; *v != want {
		t.Errorf("got %+v", v)
	}
	want.Outcome, want.Bytes, want.TookMS = "not_found", 7, 1.5
	if v := next(t, transfers, api.TopicTransfers, api.EventEnded).Transfer; *v != want {
		t.Errorf("got %+v", v)
	}
}

// TestDurability: an event has the totals and the members that it is about.
func TestDurability(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	s := subscribe(t, e, "durability")
	want := api.DurabilityEvent{Objects: 9, AtRisk: 3, Missing: 7, Members: 1, IDs: []string{"12D3"}}
	e.Durability(api.EventGone, want)
	if got := next(t, s, api.TopicDurability, api.EventGone).Durability; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestReload: an event names the reload and its keys.
func TestReload(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	s := subscribe(t, e, "reloads")
	want := api.ReloadEvent{Token: "5f0c", Keys: []string{"node.upload_rate"}, Count: 1, Gate: "store_space"}
	e.Reload(api.EventReverted, want)
	if got := next(t, s, api.TopicReloads, api.EventReverted).Reload; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestStop: readers get what waits, and then draining.
func TestStop(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	s := subscribe(t, e)
	e.PinAdded(b3.Root{}, "", false)
	e.Stop()
	e.PinAdded(b3.Root{}, "", false)
	next(t, s, api.TopicPins, api.EventAdded)
	if _, _, err := s.Next(t.Context()); status.Of(err) != status.Draining {
		t.Errorf("got %v", err)
	}
}

// TestUnreadCostsNothing: without a reader no event is made.
func TestUnreadCostsNothing(t *testing.T) {
	e := New(nil, nil)
	subscribe(t, e, "peers")
	root, gates := b3.Sum([]byte("x")), api.Readiness{Gates: []api.Gate{{Name: "a"}}}
	if n := testing.AllocsPerRun(100, func() {
		e.PinAdded(root, "photos", true)
		e.PinRemoved(root, "photos")
		e.Transfer(resolver.TransferEvent{Root: root})
		gates.Gates[0].Ready = !gates.Gates[0].Ready
		e.Readiness(gates)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
