package session

import (
	"errors"
	"math"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/oap"
)

// greetedLink is a link that nobody runs, its HELLO done, and the peer's end of
// its stream.
func greetedLink(t *testing.T, opened bool) (*link, *testkit.Stream) {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{Host: testkit.NewNetwork(testkit.Options{}).Host("a")})
	if err != nil {
		t.Fatal(err)
	}
	stream, other := testkit.Pipe(testkit.Options{})
	s.mu.Lock()
	l := s.newLink(t.Context(), s.entry("b"), stream, opened)
	s.mu.Unlock()
	l.helloDone(greeting{}, oap.MaxFrame, 1, false)
	return l, other
}

// TestStopTellsOfAnAnswerNotSent: an answer that is given up because the
// session ends is still owed when the node stops at the same moment: the stream
// is reset, not closed, after which the peer would ask somebody else again.
func TestStopTellsOfAnAnswerNotSent(t *testing.T) {
	for sent, want := range map[bool]bool{false: true, true: false} {
		l, other := greetedLink(t, false)
		if err := l.peer.permits.acquireForReader(l.dead); err != nil {
			t.Fatal(err)
		}
		l.unanswered++
		l.svc.inflight.Enter()
		o := outgoingFrame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd})
		o.final = true
		l.egress.add(o)
		l.releaseFrames(l.egress.take(math.MaxInt), sent)
		if n := l.svc.inflight.Inside(); n != 0 {
			t.Errorf("a drain would wait for %d", n)
		}
		l.fail(errStopped)
		var reset *network.StreamError
		if got := errors.As(other.Err(), &reset); got != want {
			t.Errorf("an answer sent: %t; the stream is reset: %t", sent, got)
		}
	}
}

// TestDrainCountsOrRefuses: what passes every other check after a Drain has
// counted is refused, and not counted either.
func TestDrainCountsOrRefuses(t *testing.T) {
	for opened, begin := range map[bool]func(l *link) error{
		false: func(l *link) error { return l.dispatch(oap.Frame{Header: oap.Header{CorrID: 1}}, &Request{}, nil) },
		true: func(l *link) error {
			_, err := l.start(t.Context(), Message{Proto: oap.ProtoIndex}, true)
			return err
		},
	} {
		l, _ := greetedLink(t, opened)
		if n := l.svc.Drain(t.Context(), 0); n != 0 {
			t.Fatal(n)
		}
		if err := begin(l); !errors.Is(err, errDraining) {
			t.Errorf("opened %t: got %v", opened, err)
		}
		if l.svc.inflight.Inside() != 0 || len(l.requests) != 0 || l.unanswered != 0 {
			t.Errorf("opened %t: %d counted, %d in flight, %d owed",
				opened, l.svc.inflight.Inside(), len(l.requests), l.unanswered)
		}
	}
}
