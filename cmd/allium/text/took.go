package text

import (
	"fmt"
	"time"

	"allium/gateway/api"
)

// Took says how many bytes were worked through in which time, and how fast those went that were not there
// before, such as "191 MiB in 634ms (301 MiB/s)". Without fresh bytes it leaves out the speed.
func Took(bytes, fresh int64, took time.Duration) string {
	if fresh > 0 {
		return size(bytes) + " in " + Speed(fresh, took)
	}
	return size(bytes) + " in " + rounded(took).String()
}

// Speed says in which time bytes were worked through, and how fast.
func Speed(bytes int64, took time.Duration) string {
	return fmt.Sprintf("%s (%s/s)", rounded(took), size(int64(float64(bytes)/max(took.Seconds(), 1e-3))))
}

// AddTook says what an add has stored and in which time. It gives a speed only if all files were read.
func AddTook(sum api.Added, took time.Duration) string {
	fresh := sum.Bytes
	if sum.Reused > 0 {
		fresh = 0
	}
	said := "added " + Plural(sum.Files, "file") + ", " + Took(sum.Bytes, fresh, took)
	if sum.Reused > 0 {
		said += fmt.Sprintf("; %d of them were known and not read", sum.Reused)
	}
	return said
}

// rounded is a duration with a precision that a person reads.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
