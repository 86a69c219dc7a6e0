package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. It is long, so that only a hang fails and a
// busy machine does not.
const patience = 2 * time.Minute

// Eventually calls ok every 5 ms until it returns true. After two minutes it fails the
// test. what names the condition in the message.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
