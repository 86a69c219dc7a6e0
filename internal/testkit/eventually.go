package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits: a hang is a failure, and a busy machine
// is none.
const patience = 2 * time.Minute

// Eventually waits until ok returns true, and fails the test when that takes two
// minutes. what names the condition.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
