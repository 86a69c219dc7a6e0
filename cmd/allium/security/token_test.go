package security

import (
	"testing"
	"time"
)

// TestParseExpiry parses durations late in a second: what is left of the second
// is never taken from the life that was asked for.
func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 990_000_000, time.UTC)
	for s, want := range map[string]string{
		"1s":                   "2026-01-02T15:04:07Z",
		"10ms":                 "2026-01-02T15:04:06Z",
		"1.5s":                 "2026-01-02T15:04:08Z",
		"30d":                  "2026-02-01T15:04:06Z",
		"366d":                 "2027-01-03T15:04:06Z",
		"2026-01-02T15:04:06Z": "2026-01-02T15:04:06Z",
		"2026-01-02T15:04:05Z": "",
		"0s":                   "",
		"-1s":                  "",
		"366d1s":               "",
		"367d":                 "",
		"soon":                 "",
	} {
		until, err := parseExpiry(s, now)
		if want == "" {
			if err == nil {
				t.Errorf("%q is until %s, want an error", s, until)
			}
			continue
		}
		if err != nil || until.Format(time.RFC3339Nano) != want {
			t.Errorf("%q is until %s (error %v), want %s", s, until.Format(time.RFC3339Nano), err, want)
		}
	}
}
