package testkit

import (
	"os"
	"testing"
)

// Missing ends a test that needs a program or a tool which is not installed: it skips the test, and fails it
// where ALLIUM_CI is set, because CI installs all of them. why names the tool and says what is not tested without it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("ALLIUM_CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
