package term

import (
	"fmt"
	"strconv"
	"time"

	"allium/internal/limits"
	"allium/internal/printable"
)

// Resumed says how many of total bytes an earlier transfer had left here. It is
// empty if there were none.
func Resumed(had, total int64) string {
	if had == 0 {
		return ""
	}
	return fmt.Sprintf(", resumed at %s of %s", Bytes(had), Bytes(total))
}

// Bytes is a number of bytes for people, such as 1.5 MiB.
func Bytes(bytes int64) string { return limits.Bytes(bytes).Human() }

// Ago says how long before now t was, in whole seconds.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}

// Span is a duration for people in one or two units, rounded: 30 days, 1 day 4
// hours, 59 minutes, 5 seconds.
func Span(d time.Duration) string {
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	for i, u := range units { // round away less than a tenth of the first unit
		if d >= 10*u.length || i == len(units)-1 {
			d = d.Round(u.length)
			break
		}
		if d >= u.length {
			d = d.Round(units[i+1].length)
			break
		}
	}
	for i, u := range units {
		n := d / u.length
		if n == 0 {
			continue
		}
		text := printable.Count(int(n), u.name)
		if i+1 < len(units) && n < 10 {
			if m := (d % u.length) / units[i+1].length; m > 0 {
				text += " " + printable.Count(int(m), units[i+1].name)
			}
		}
		return text
	}
	return "less than a second"
}

// Quote returns a text that the user typed, in quotes and cut after 80 bytes.
func Quote(s string) string { return strconv.Quote(printable.Name(s[:min(len(s), 80)])) }

// Took says how many bytes were worked through in which time, and how fast those went that were not there
// before, such as "191 MiB in 634ms (301 MiB/s)". Without fresh bytes it leaves out the speed.
func Took(bytes, fresh int64, took time.Duration) string {
	if fresh > 0 {
		return Bytes(bytes) + " in " + Speed(fresh, took)
	}
	return Bytes(bytes) + " in " + Rounded(took).String()
}

// Speed says in which time bytes were worked through, and how fast.
func Speed(bytes int64, took time.Duration) string {
	return fmt.Sprintf("%s (%s/s)", Rounded(took), Bytes(int64(float64(bytes)/max(took.Seconds(), 1e-3))))
}

// Stamp is a time for a person, to the second.
func Stamp(t time.Time) string { return t.Local().Format(time.DateTime) }

// Milliseconds is a time in milliseconds, to a tenth of one.
func Milliseconds(v float64) string { return fmt.Sprintf("%.1f ms", v) }

// Rounded returns a duration with a precision that a person reads.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
