package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"allium/protocols/status"
)

// Bytes is a size in a configuration: "512", "64KiB", "1.5GiB", "20GB".
type Bytes int64

// units are the units that ParseBytes knows, the largest first. String and Human
// write the first four only.
var units = []struct {
	name string
	n    float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1},
}

// ParseBytes parses a size. It refuses negative sizes and those above 2^63 − 1.
func ParseBytes(s string) (Bytes, error) {
	num, scale := strings.TrimSpace(s), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(num, u.name); ok {
			num, scale = strings.TrimSpace(rest), u.n
			break
		}
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil && scale == 1 && n >= 0 {
		return Bytes(n), nil // exact, also above 2^53
	}
	f, err := strconv.ParseFloat(num, 64)
	if v := f * scale; err == nil && v >= 0 && v < math.MaxInt64 {
		return Bytes(v), nil
	}
	return 0, status.Errorf(status.BadRequest, "%q is not a size; write 512, 64KiB, 50MiB or 1.5GiB", s)
}

// String returns the size with the largest binary unit that divides it, so that
// ParseBytes returns exactly b again.
func (b Bytes) String() string {
	for _, u := range units[:4] {
		if n := Bytes(u.n); b >= n && b%n == 0 {
			return strconv.FormatInt(int64(b/n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText returns String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText parses p with ParseBytes.
func (b *Bytes) UnmarshalText(p []byte) (err error) {
	*b, err = ParseBytes(string(p))
	return err
}

// Human returns the size for people, rounded to three digits, such as "1.21 GiB".
func (b Bytes) Human() string {
	for _, u := range units[:4] {
		switch f := float64(b) / u.n; {
		case f >= 1000: // %.3g would write an exponent
			return fmt.Sprintf("%.0f %s", f, u.name)
		case f >= 1:
			return fmt.Sprintf("%.3g %s", f, u.name)
		}
	}
	return fmt.Sprintf("%d B", int64(b))
}
