package providers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRank shows which of two providers comes first.
func TestRank(t *testing.T) {
	t.Parallel()
	known := Traits{Served: true, RTT: 20 * time.Millisecond, Rate: 10 << 20}
	with := func(change func(*Traits)) Traits {
		changed := known
		change(&changed)
		return changed
	}
	for name, pair := range map[string][2]Traits{
		"an open breaker is last": {
			{RTT: 10 * time.Second, Wrong: 8, Busy: true}, with(func(k *Traits) { k.Breaker = BreakerOpen }),
		},
		"a half-open one is before it": {
			{Breaker: BreakerHalfOpen, Busy: true}, with(func(k *Traits) { k.Breaker = BreakerOpen }),
		},
		"served before":        {known, with(func(k *Traits) { k.Served = false })},
		"a shorter round trip": {known, with(func(k *Traits) { k.RTT = 60 * time.Millisecond })},
		"a higher rate":        {known, with(func(k *Traits) { k.Rate = 1 << 20 })},
		"the region":           {known, with(func(k *Traits) { k.OtherRegion = true })},
		"a fresher record": {
			with(func(k *Traits) { k.Age = time.Hour }), with(func(k *Traits) { k.Age = 9 * time.Hour }),
		},
		"a record before none": {with(func(k *Traits) { k.Age = 24 * time.Hour }),
			with(func(k *Traits) { k.Age = -1 })},
		"not busy":                  {known, with(func(k *Traits) { k.Busy = true })},
		"no wrong claim":            {known, with(func(k *Traits) { k.Wrong = 1 })},
		"a stranger before a tardy": {{}, with(func(k *Traits) { k.Silent = 2 })},
		"a stranger before a liar":  {{}, with(func(k *Traits) { k.Wrong = 1 })},
		"a stranger before a slow peer": {
			{}, with(func(k *Traits) { k.RTT = time.Second }),
		},
		"a far peer that is fast before a near one that is slow": {
			with(func(k *Traits) { k.OtherRegion, k.RTT = true, 80*time.Millisecond }),
			with(func(k *Traits) { k.Rate = 1 << 20 }),
		},
	} {
		list := []int{1, 0} // the worse one is found first
		Rank(list, func(i int) Traits { return pair[i] })
		if list[0] != 0 {
			t.Errorf("%s: %+v (%s) comes before %+v (%s)", name, pair[1], pair[1].Cost(), pair[0], pair[0].Cost())
		}
	}
}

// drawTraits draws any traits.
func drawTraits(t *rapid.T, label string) Traits {
	duration := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-1, int64(time.Minute)), rapid.Int64())
	return Traits{
		Breaker: Breaker(rapid.IntRange(0, 2).Draw(t, label+" breaker")),
		Served:  rapid.Bool().Draw(t, label+" served"),
		RTT:     time.Duration(duration.Draw(t, label+" rtt")),
		Rate: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 1e9), rapid.Float64()).
			Draw(t, label+" rate"),
		OtherRegion: rapid.Bool().Draw(t, label+" region"),
		Age:         time.Duration(duration.Draw(t, label+" age")),
		Busy:        rapid.Bool().Draw(t, label+" busy"),
		Silent:      rapid.Float64Range(0, 100).Draw(t, label+" silent"),
		Wrong:       rapid.Float64Range(0, 100).Draw(t, label+" wrong"),
	}
}

// TestCostIsMonotone: no trait makes a provider better by getting worse.
func TestCostIsMonotone(t *testing.T) {
	t.Parallel()
	worse := map[string]func(*Traits){
		"served": func(x *Traits) { x.Served = false },
		"region": func(x *Traits) { x.OtherRegion = true },
		"busy":   func(x *Traits) { x.Busy = true },
		"wrong":  func(x *Traits) { x.Wrong++ },
		"silent": func(x *Traits) { x.Silent++ },
		"rtt": func(x *Traits) {
			if x.RTT > 0 && x.RTT < time.Hour {
				x.RTT *= 2
			}
		},
		"rate": func(x *Traits) {
			if x.Rate > 0 {
				x.Rate /= 2
			}
		},
		"age": func(x *Traits) {
			if x.Age >= 0 && x.Age < time.Hour {
				x.Age = x.Age*2 + 1
			} else {
				x.Age = -1
			}
		},
	}
	names := make([]string, 0, len(worse))
	for name := range worse {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		a := drawTraits(t, "a")
		b := a
		worse[rapid.SampledFrom(names).Draw(t, "trait")](&b)
		if a.Cost() < 0 || b.Cost() < a.Cost() {
			t.Fatalf("%+v costs %s, the worse %+v costs %s", a, a.Cost(), b, b.Cost())
		}
	})
}

// TestRankIsAnOrder: a ranking keeps every provider, does not depend on the order
// of arrival except between equals, and ranking it again changes nothing.
func TestRankIsAnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := make([]Traits, rapid.IntRange(0, 40).Draw(t, "n"))
		for i := range all {
			all[i] = drawTraits(t, "p")
		}
		list := make([]int, len(all))
		for i := range list {
			list[i] = i
		}
		of := func(i int) Traits { return all[i] }
		ranked := slices.Clone(list)
		Rank(ranked, of)
		again := slices.Clone(ranked)
		Rank(again, of)
		if !slices.Equal(ranked, again) {
			t.Fatalf("ranked %v, again %v", ranked, again)
		}
		for i := 1; i < len(ranked); i++ {
			a, b := of(ranked[i-1]), of(ranked[i])
			same := a.Breaker == b.Breaker && a.Cost() == b.Cost()
			if a.Breaker > b.Breaker || a.Breaker == b.Breaker && a.Cost() > b.Cost() ||
				same && ranked[i-1] > ranked[i] {
				t.Fatalf("%d before %d: %+v, %+v", ranked[i-1], ranked[i], a, b)
			}
		}
		shuffled := rapid.Permutation(list).Draw(t, "order")
		Rank(shuffled, of)
		key := func(list []int) string {
			var b strings.Builder
			for _, i := range list {
				b.WriteString(of(i).Cost().String())
				b.WriteByte(byte('0' + of(i).Breaker))
			}
			return b.String()
		}
		if key(shuffled) != key(ranked) {
			t.Fatal("the order of arrival changes the ranking")
		}
		slices.Sort(ranked)
		if !slices.Equal(ranked, list) {
			t.Fatal("a provider was lost")
		}
	})
}
