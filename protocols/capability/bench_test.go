package capability

import "testing"

// BenchmarkVerify is what a request pays for its capability.
func BenchmarkVerify(b *testing.B) {
	for name, list := range map[string][]string{
		"two caveats": {inAnHour, "op in put"},
		"each caveat": {inAnHour, "op in get,put", "obj ^= b3:", "method in GET,PUT",
			"bytes <= 10MiB", "rate <= 1048576",
			"aud = " + self},
		"32 caveats": append(times(MaxCaveats-1, "bytes <= 10%dMiB"), inAnHour),
	} {
		v, r, _ := newVerifier(b)
		token := mint(b, r, list...)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(token, put()); err != nil && RefusalOf(err) != string(TooOften) {
					b.Fatal(err)
				}
			}
		})
	}
	v, _, _ := newVerifier(b)
	forged := mint(b, newRing(b), inAnHour, "op in put")
	b.Run("forged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Verify(forged, put()); err == nil {
				b.Fatal("it was let in")
			}
		}
	})
}
