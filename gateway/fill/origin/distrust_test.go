package origin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestDistrust: a mirror that lied is asked last, and for a path about which it lied not at all, until the penalty
// ends. Further lies double that, and the number of remembered ones is bounded.
func TestDistrust(t *testing.T) {
	t.Parallel()
	c, err := New(Config{Source: "maps", Params: quick(), URLs: []string{
		"https://a.example/", "https://b.example/", "https://c.example/",
	}}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	order := func(path string, after time.Duration, want ...int) {
		t.Helper()
		if got, err := c.order(Request{Path: path}, now.Add(after)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q after %s: %v, %v, not %v", path, after, got, err, want)
		}
	}
	order("a", 0, 0, 1, 2)
	c.Lied(0, "a")
	order("a", 0, 1, 2)
	order("", 0, 1, 2, 0)
	order("b", minPenalty/2, 1, 2, 0)
	order("a", minPenalty+time.Second, 0, 1, 2)
	c.Lied(0, "a")
	order("a", 2*minPenalty-time.Second, 1, 2)
	order("b", 2*minPenalty+time.Second, 0, 1, 2)
	c.Lied(1, "a")
	c.Lied(2, "a")
	_, err = c.order(Request{Path: "a"}, time.Now())
	want(t, "all lied", err, status.Corrupt, "")
	if !strings.HasSuffix(err.Error(), "asked again in 10 s") {
		t.Errorf("%v", err)
	}
	order("b", 0, 0, 1, 2)
	if got, err := c.order(Request{Path: "b", Except: []int{2, 0}}, now); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("%v, %v", got, err)
	}
	l := lie{0, "/x"}
	for range 100 {
		c.distrust.note(l, now)
	}
	if end := c.distrust.until(l, now); end.Sub(now) != maxPenalty {
		t.Errorf("a hundred lies cost %s", end.Sub(now))
	}
	c.distrust.note(l, now.Add(2*maxPenalty+time.Second))
	if end := c.distrust.until(l, now.Add(2*maxPenalty+time.Second)); end.Sub(now) != 2*maxPenalty+time.Second+minPenalty {
		t.Errorf("the first lie after a long time costs %s", end.Sub(now))
	}
	for i := range 2 * maxLies {
		c.Lied(0, fmt.Sprint(i))
	}
	if n := c.distrust.lies.Len(); n != maxLies {
		t.Errorf("%d lies are remembered", n)
	}
}
