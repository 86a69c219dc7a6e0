package term

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		30 * day:                        "30 days",
		30*day - 900*time.Millisecond:   "30 days", // what was minted a moment ago
		30*day + 5*time.Hour:            "30 days",
		30*day - 13*time.Hour:           "29 days",
		2*day - time.Second:             "2 days",
		36*time.Hour + time.Minute:      "1 day 12 hours",
		day:                             "1 day",
		day - time.Second:               "1 day",
		9*day + time.Minute:             "9 days",
		10*day - time.Second:            "10 days",
		23*time.Hour + 10*time.Minute:   "23 hours",
		90 * time.Minute:                "1 hour 30 minutes",
		time.Hour - time.Second:         "1 hour",
		61 * time.Second:                "1 minute 1 second",
		45*time.Minute + 10*time.Second: "45 minutes",
		5*time.Second - time.Nanosecond: "5 seconds",
		400 * time.Millisecond:          "less than a second",
		366 * day:                       "366 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
