package gateway

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	const none, bad = "none", "bad"
	for _, c := range []struct {
		header string
		size   int64
		want   string
	}{
		{"", 10, none},
		{"bytes=0-3", 10, "0-4"},
		{"bytes=0-0", 10, "0-1"},
		{"bytes=3-", 10, "3-10"},
		{"bytes=9-", 10, "9-10"},
		{"bytes=-3", 10, "7-10"},
		{"bytes=-30", 10, "0-10"},
		{"bytes=0-99", 10, "0-10"},
		{"BYTES=0-3", 10, "0-4"},
		{"Bytes=0-3", 10, "0-4"},
		{"bytes = 0-3", 10, "0-4"},
		{"bytes= 0-3 ,", 10, "0-4"},
		{"bytes=,0-3", 10, "0-4"},
		{"bytes=007-0008", 10, "7-9"},

		// numbers that fit nothing are clamped
		{"bytes=0-99999999999999999999999", 10, "0-10"},
		{"bytes=-99999999999999999999999", 10, "0-10"},
		{"bytes=0-9223372036854775807", 10, "0-10"},
		{"bytes=99999999999999999999999-", 10, bad},
		{"bytes=0-9223372036854775807", math.MaxInt64, "0-9223372036854775807"},

		// other units are ignored
		{"items=0-3", 10, none},
		{"bytes", 10, none},
		{"0-3", 10, none},
		{"=0-3", 10, none},

		// what selects nothing, or more than one range, is refused
		{"bytes=10-", 10, bad},
		{"bytes=10-12", 10, bad},
		{"bytes=-0", 10, bad},
		{"bytes=5-2", 10, bad},
		{"bytes=0-1,3-4", 10, bad},
		{"bytes=0-1,0-1", 10, bad},
		{"bytes=0-3,x", 10, bad},
		{"bytes=", 10, bad},
		{"bytes=-", 10, bad},
		{"bytes=,", 10, bad},
		{"bytes=a-b", 10, bad},
		{"bytes=0", 10, bad},
		{"bytes=0x1-2", 10, bad},
		{"bytes=+1-2", 10, bad},
		{"bytes=--2", 10, bad},
		{"bytes=1--2", 10, bad},
		{"bytes=1-2-3", 10, bad},
		{"bytes=1 -2", 10, bad},

		// the empty object has no bytes to select, and all of its last ones
		{"bytes=0-", 0, bad},
		{"bytes=0-0", 0, bad},
		{"bytes=-0", 0, bad},
		{"bytes=-5", 0, none},
	} {
		rng, ok, err := parseRange(c.header, c.size)
		got := fmt.Sprintf("%d-%d", rng.start, rng.end)
		switch {
		case err != nil && status.Of(err) == status.BadRange && !ok:
			got = bad
		case err != nil:
			got = err.Error()
		case !ok:
			got = none
		}
		if got != c.want {
			t.Errorf("%q of %d bytes: %s, want %s", c.header, c.size, got, c.want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes=0-3", "bytes=-0", "bytes=5-2", "items=1-2", "bytes=0-1,2-3", "Bytes=99999999999999999999-", "bytes=,-7 ,"} {
		f.Add(s, int64(10))
	}
	f.Add("bytes=-5", int64(0))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		rng, ok, err := parseRange(header, size)
		switch {
		case err != nil:
			if ok || status.Of(err) != status.BadRange {
				t.Errorf("ok %v, error %v", ok, err)
			}
		case ok:
			if rng.start < 0 || rng.start >= rng.end || rng.end > size {
				t.Errorf("range %+v of %d bytes", rng, size)
			}
			if !strings.Contains(header, "-") {
				t.Errorf("a range out of %q", header)
			}
		case rng != byteRange{}:
			t.Errorf("%+v and not ok", rng)
		}
	})
}
