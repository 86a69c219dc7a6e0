package testkit

import (
	"testing"
	"time"
)

// patience is the longest time that Eventually waits. It is long, so that only a hang fails and a
// busy machine does not.
const patience = 5 * time.Minute

// Eventually calls ok every 5 ms until it returns true. After five minutes it fails the
// test. what names the condition in the message.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Within(patience, ok) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// Within calls ok every 5 ms until it returns true. After d it gives up and returns false.
func Within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
