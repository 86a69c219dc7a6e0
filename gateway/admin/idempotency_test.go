package admin

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestOnce: a key lets a request happen once for a day, and says so where it
// cannot.
func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newIdempotency(nil)
		asked, other := b3.Sum([]byte("a")), b3.Sum([]byte("b"))
		runs := 0
		run := func() ([]byte, error) { runs++; return []byte(fmt.Sprint(runs)), nil }
		expect := func(id requestID, asked b3.Root, body string, replayed bool, want status.Outcome) {
			t.Helper()
			got, again, err := o.do(id, asked, run)
			if string(got) != body || again != replayed || status.Of(err) != want {
				t.Errorf("%q, %t, %v; want %q, %t, %s", got, again, err, body, replayed, want)
			}
		}
		id := requestID{"me", "k"}
		expect(requestID{}, asked, "1", false, status.OK)
		expect(requestID{}, asked, "2", false, status.OK) // no key: each time
		expect(id, asked, "3", false, status.OK)
		expect(id, asked, "3", true, status.OK)
		expect(id, other, "", false, status.Conflict)
		expect(requestID{"you", "k"}, other, "4", false, status.OK) // a key is its bearer's own
		time.Sleep(savedFor - time.Nanosecond)
		expect(id, asked, "3", true, status.OK)
		time.Sleep(time.Nanosecond)
		expect(id, asked, "5", false, status.OK)
		if o.size() != 1 {
			t.Errorf("%d are kept", o.size())
		}
	})
}

// TestOnceWhileItRuns: the same request does not run twice at once, and its
// client hears when to ask again.
func TestOnceWhileItRuns(t *testing.T) {
	t.Parallel()
	o := newIdempotency(nil)
	id, asked := requestID{"", "k"}, b3.Sum(nil)
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = o.do(id, asked, func() ([]byte, error) { close(begun); <-end; return []byte("x"), nil })
	}()
	<-begun
	_, _, err := o.do(id, asked, func() ([]byte, error) { t.Error("it runs twice"); return nil, nil })
	if status.Of(err) != status.Conflict || status.ReportOf(err).RetryAfterMS == 0 {
		t.Errorf("%v", err)
	}
	close(end)
	<-done
	if body, replayed, err := o.do(id, asked, nil); string(body) != "x" || !replayed || err != nil {
		t.Errorf("%q, %t, %v", body, replayed, err)
	}
}

// TestOnceFailures: what is certain to fail again is kept, what may pass is not,
// and neither is a panic or an answer that is too long.
func TestOnceFailures(t *testing.T) {
	t.Parallel()
	o := newIdempotency(nil)
	asked := b3.Sum(nil)
	for _, out := range status.All() {
		if out.Success() {
			continue
		}
		id := requestID{"", out.String()}
		failure := status.Errorf(out, "it failed")
		if _, _, err := o.do(id, asked, func() ([]byte, error) { return nil, failure }); !errors.Is(err, failure) {
			t.Errorf("%s: %v", out, err)
		}
		ran := false
		_, replayed, _ := o.do(id, asked, func() ([]byte, error) { ran = true; return nil, nil })
		keeps := out.Retry() == status.RetryNever && out != status.Canceled
		if replayed != keeps || ran == keeps {
			t.Errorf("%s: replayed %t, ran %t", out, replayed, ran)
		}
	}
	id := requestID{"", "panic"}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = o.do(id, asked, func() ([]byte, error) { panic("boom") })
	}()
	if _, replayed, err := o.do(id, asked, func() ([]byte, error) {
		return make([]byte, maxSavedAnswer+1), nil
	}); replayed || err != nil {
		t.Errorf("after a panic: %t, %v", replayed, err)
	}
	if _, replayed, _ := o.do(id, asked, func() ([]byte, error) { return nil, nil }); replayed {
		t.Error("a long answer was kept")
	}
}

// TestOnceIsBounded: the oldest is forgotten.
func TestOnceIsBounded(t *testing.T) {
	t.Parallel()
	o := newIdempotency(nil)
	asked := b3.Sum(nil)
	for i := range maxRequests + 1 {
		if _, replayed, _ := o.do(requestID{"", fmt.Sprint(i)}, asked,
			func() ([]byte, error) { return nil, nil }); replayed {
			t.Errorf("%d was known", i)
		}
	}
	if o.size() != maxRequests || len(o.requests) != maxRequests {
		t.Errorf("%d, %d are kept", o.size(), len(o.requests))
	}
	for key, kept := range map[string]bool{"0": false, fmt.Sprint(maxRequests): true, "2": true} {
		if _, replayed, _ := o.do(requestID{"", key}, asked,
			func() ([]byte, error) { return nil, nil }); replayed != kept {
			t.Errorf("%s: %t", key, replayed)
		}
	}
}

// TestOnceKeepsWhatRuns: a request that runs keeps its key however many others
// come and however long it takes; while all of them run the next is busy.
func TestOnceKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newIdempotency(nil)
		asked := b3.Sum(nil)
		end := make(chan struct{})
		var running sync.WaitGroup
		id := func(i int) requestID { return requestID{"", fmt.Sprint(i)} }
		run := func(i int) {
			running.Go(func() {
				_, _, _ = o.do(id(i), asked, func() ([]byte, error) { <-end; return []byte("first"), nil })
			})
		}
		run(0)
		synctest.Wait()
		for i := range 2 * maxRequests {
			_, _, _ = o.do(id(1+i), asked, func() ([]byte, error) { return nil, nil })
		}
		time.Sleep(2 * savedFor)
		if _, _, err := o.do(id(0), asked, func() ([]byte, error) {
			t.Error("it runs twice")
			return nil, nil
		}); status.Of(err) != status.Conflict {
			t.Errorf("%v", err)
		}
		for i := range maxRequests - 1 {
			run(1 + i)
		}
		synctest.Wait()
		_, _, err := o.do(id(-1), asked, func() ([]byte, error) { t.Error("it has no place"); return nil, nil })
		if l := status.ReportOf(err); status.Of(err) != status.Busy || l.RetryAfterMS == 0 || o.size() != maxRequests {
			t.Errorf("%v, %d are kept", err, o.size())
		}
		close(end)
		running.Wait()
		if body, replayed, err := o.do(id(1), asked, nil); string(body) != "first" || !replayed || err != nil {
			t.Errorf("%q, %t, %v", body, replayed, err)
		}
		if _, replayed, err := o.do(id(-1), asked, func() ([]byte, error) { return nil, nil }); replayed || err != nil {
			t.Errorf("%t, %v", replayed, err)
		}
	})
}
