package term

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	half := api.Progress{Bytes: 512 << 20, TotalBytes: 1 << 30}
	for name, c := range map[string]struct {
		columns int
		what    string
		p       api.Progress
		rate    float64
		want    string
	}{
		"wide": {120, "fetching big.bin", half, 100 << 20,
			"fetching big.bin  [###########################............................]  " +
				"50 %  512 MiB of 1 GiB  100 MiB/s  5s left"},
		"80": {80, "fetching big.bin", half, 100 << 20,
			"fetching big.bin  [#######........]  50 %  512 MiB of 1 GiB  100 MiB/s  5s left"},
		"no bar": {70, "fetching big.bin", half, 100 << 20,
			"fetching big.bin  50 %  512 MiB of 1 GiB  100 MiB/s  5s left"},
		"narrow":      {40, "fetching big.bin", half, 100 << 20, "fetching…  512 MiB/1 GiB  100 MiB/s  5s"},
		"very narrow": {30, "fetching big.bin", half, 100 << 20, "512 MiB/1 GiB  100 MiB/s  5s"},
		"no total":    {40, "adding photos", api.Progress{Bytes: 3 << 20}, 1 << 20, "adding photos  3 MiB  1 MiB/s"},
		"no rate yet": {40, "adding photos", api.Progress{Bytes: 3 << 20}, -1, "adding photos  3 MiB"},
		"stalled":     {40, "get x", half, 0, "get x  50 %  512 MiB of 1 GiB  0 B/s"},
		"slow":        {40, "get x", half, 1 << 20, "get x  512 MiB/1 GiB  1 MiB/s  8m32s"},
		"very slow":   {40, "get x", half, 1 << 10, "get x  512 MiB/1 GiB  1 KiB/s  6d"},
		"more than it said": {40, "get x", api.Progress{Bytes: 2 << 30, TotalBytes: 1 << 30}, 1 << 20,
			"get x  100 %  1 GiB of 1 GiB  1 MiB/s"},
		"wide letters": {40, "大蒜大蒜大蒜大蒜", half, 100 << 20, "大蒜大蒜…  512 MiB/1 GiB  100 MiB/s  5s"},
	} {
		got := progressLine(c.columns-1, c.what, c.p, c.rate, true)
		if got != c.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
	if got := progressLine(19, "waiting for the node: ping", api.Progress{}, -1, false); got != "waiting for the no…" {
		t.Errorf("while nothing is counted the line is %q", got)
	}
	for columns := 1; columns < 200; columns++ {
		if got := progressLine(columns-1, "fetching 大蒜.bin", half, 1<<20, true); columns > 35 && Cells(got) >= columns {
			t.Errorf("at %d columns the line has %d: %q", columns, Cells(got), got)
		}
	}
}

// last returns what stands in the last line of a terminal after what was written to it.
func last(written string) string { return written[strings.LastIndex(written, "\x1b[K")+3:] }

func TestProgressIsDrawnInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := NewProgress(&w, 80, "get x", true)
		const mib = 1 << 20
		r := api.Progress{TotalBytes: 1000 * mib, Resumed: 500 * mib, Bytes: 500 * mib}
		p.Report(r)
		time.Sleep(900 * time.Millisecond)
		p.Report(r)
		if w.Len() > 0 {
			t.Errorf("drawn within a second: %q", w.String())
		}
		for range 100 { // 10 MiB/s beside what an earlier run had
			time.Sleep(100 * time.Millisecond)
			r.Bytes += mib
			p.Report(r)
		}
		if got := last(w.String()); !strings.Contains(got, "60 %  600 MiB of 1000 MiB  10 MiB/s  40s left") {
			t.Errorf("after 10 s: %q", got)
		}
		p.Clear()
		if got := last(w.String()); got != "" {
			t.Errorf("after Clear: %q", got)
		}
		time.Sleep(2 * rateWindow)
		synctest.Wait()
		if got := last(w.String()); !strings.Contains(got, " 0 B/s") || strings.Contains(got, "left") {
			t.Errorf("without reports: %q", got)
		}
		p.Finish()
		p.Finish()
		p.Report(r)
		time.Sleep(time.Minute)
		if got := last(w.String()); got != "" {
			t.Errorf("after Finish: %q", got)
		}
	})
}

func TestProgressIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := NewProgress(&w, 40, "get x", false)
		defer p.Finish()
		for i := range int64(10_000) {
			time.Sleep(10 * time.Millisecond)
			p.Report(api.Progress{Objects: i})
		}
		if most := int(rateWindow/progressEvery) + 3; len(p.samples) > most {
			t.Errorf("%d samples are kept, want at most %d", len(p.samples), most)
		}
		if n := strings.Count(w.String(), "\r"); n > 1000 {
			t.Errorf("drawn %d times in 100 s", n)
		}
		if got := fmt.Sprint(last(w.String())); !strings.HasSuffix(got, "100/s") {
			t.Errorf("the line is %q", got)
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"garlic", 6, "garlic"},
		{"garlic", 5, "garl…"},
		{"大蒜", 4, "大蒜"},
		{"大蒜", 3, "大…"},
		{"大蒜", 2, "…"},
		{"e\u0301e\u0301", 2, "e\u0301e\u0301"},
		{"", 0, ""},
		{"ab", 0, "…"},
	} {
		if got := Cut(c.text, c.columns); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
