package limits_test

import (
	"testing"

	"pgregory.net/rapid"

	"allium/internal/limits"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]limits.Bytes{
		"0": 0, "512": 512, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "20GB": 20e9, "7 MiB": 7 << 20, "100B": 100,
		"9007199254740993": 9007199254740993,
	} {
		if got, err := limits.ParseBytes(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "KiB", "1XiB", "1e30", "NaN", "Inf", "64kib", "8388608TiB"} {
		if got, err := limits.ParseBytes(in); err == nil {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
}

func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := limits.Bytes(rapid.Int64Min(0).Draw(t, "n"))
		if out, err := limits.ParseBytes(in.String()); err != nil || out != in {
			t.Fatalf("%d is written %s and read %d, %v", in, in, out, err)
		}
	})
}

func TestHuman(t *testing.T) {
	for in, want := range map[limits.Bytes]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1 << 30: "1 GiB",
		1300000000: "1.21 GiB", 1023 << 10: "1023 KiB"} {
		if got := in.Human(); got != want {
			t.Errorf("%d: %q, want %q", in, got, want)
		}
	}
}
