package byterange

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

		// any range of the empty object is all of it
		{"bytes=0-", 0, none},
		{"bytes=0-0", 0, none},
		{"bytes=0-1048575", 0, none},
		{"bytes=5-", 0, none},
		{"bytes=-0", 0, none},
		{"bytes=5-2", 0, bad},
		{"bytes=-5", 0, none},
	} {
		if got := parsed(c.header, c.size, 0); got != c.want {
			t.Errorf("%q of %d bytes: %s, want %s", c.header, c.size, got, c.want)
		}
	}
}

// parsed is what Parse makes of a header: ranges without their last byte,
// "none" or "bad".
func parsed(header string, size int64, most int) string {
	ranges, err := Parse(nil, header, size, most)
	switch {
	case err != nil && status.Of(err) == status.BadRange && ranges == nil:
		return "bad"
	case err != nil:
		return err.Error()
	case len(ranges) == 0:
		return "none"
	}
	var s []string
	for _, r := range ranges {
		s = append(s, fmt.Sprintf("%d-%d", r.Start, r.End))
	}
	return strings.Join(s, " ")
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{
		"bytes=0-3", "bytes=-0", "bytes=5-2", "items=1-2", "bytes=0-1,2-3",
		"Bytes=99999999999999999999-", "bytes=,-7 ,",
	} {
		f.Add(s, int64(10), 1)
		f.Add(s, int64(10), 2)
	}
	f.Add("bytes=-5", int64(0), 0)
	f.Fuzz(func(t *testing.T, header string, size int64, most int) {
		if size < 0 {
			return
		}
		ranges, err := Parse(nil, header, size, most)
		if err != nil && (ranges != nil || status.Of(err) != status.BadRange) {
			t.Errorf("%v, error %v", ranges, err)
		}
		if len(ranges) > max(most, 1) {
			t.Errorf("%d ranges, at most %d are wanted", len(ranges), most)
		}
		for _, rng := range ranges {
			if rng.Start < 0 || rng.Start >= rng.End || rng.End > size {
				t.Errorf("range %+v of %d bytes", rng, size)
			}
		}
		if len(ranges) > strings.Count(header, "-") {
			t.Errorf("%v out of %q", ranges, header)
		}
	})
}
