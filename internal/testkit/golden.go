package testkit

import (
	"os"
	"testing"
)

// Golden fails a test if got is not what a file holds. With update it writes the file first.
func Golden(t testing.TB, file, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("this is not what is in %s; run the test with -update and look at the difference:\n%s", file, got)
	}
}
