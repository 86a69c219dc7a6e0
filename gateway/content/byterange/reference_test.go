package byterange

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

var (
	rangeForm = regexp.MustCompile(`(?i)^\s*bytes\s*=(.*)$`)
	partForm  = regexp.MustCompile(`^(?:([0-9]+)-([0-9]*)|-([0-9]+))$`)
)

// referenceRanges is what RFC 9110 §14 says of a Range header, by regular
// expressions and numbers of any length: ranges in the words of parsed.
func referenceRanges(header string, size int64, most int) string {
	m := rangeForm.FindStringSubmatch(header)
	if m == nil {
		return "none"
	}
	var specs []string
	for _, p := range strings.Split(m[1], ",") {
		if p = strings.Trim(p, " \t"); p != "" {
			specs = append(specs, p)
		}
	}
	if len(specs) == 0 || len(specs) > max(most, 1) {
		return "bad"
	}
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	whole, one, sum := big.NewInt(size), big.NewInt(1), new(big.Int)
	var of []string
	all := size == 0 // no answer can say that a part is empty
	for _, spec := range specs {
		m := partForm.FindStringSubmatch(spec)
		if m == nil {
			return "bad"
		}
		from, to := new(big.Int), new(big.Int).Sub(whole, one)
		switch {
		case m[3] != "":
			count := number(m[3])
			if count.Cmp(whole) < 0 {
				from.Sub(whole, count)
			}
		case m[2] == "":
			from = number(m[1])
		default:
			from = number(m[1])
			last := number(m[2])
			if last.Cmp(from) < 0 {
				return "bad"
			}
			if last.Cmp(to) < 0 {
				to = last
			}
		}
		if to.Cmp(from) >= 0 {
			end := new(big.Int).Add(to, one)
			sum.Add(sum, new(big.Int).Sub(end, from))
			of = append(of, from.String()+"-"+end.String())
		}
	}
	switch {
	case sum.Cmp(whole) > 0:
		return "bad"
	case all:
		return "none"
	case len(of) == 0:
		return "bad"
	}
	return strings.Join(of, " ")
}

func FuzzRangeReference(f *testing.F) {
	for _, v := range []string{
		"bytes=0-0", "bytes=0-,0-", "bytes=1-2,4-5", "bytes=-1", "Bytes = 1-", "items=0-1", "bytes=5-1", "bytes=,1-2,",
	} {
		f.Add(v, int64(13), 0)
		f.Add(v, int64(1000), 4)
	}
	f.Add("bytes=-5", int64(0), 0)
	f.Add("bytes=0-0,-5", int64(0), 2)
	f.Add("bytes=9223372036854775806-", int64(1<<63-1), 0)
	f.Add("bytes=0-,0-", int64(1<<63-1), 2)
	f.Fuzz(func(t *testing.T, header string, size int64, most int) {
		if size < 0 || !httpguts.ValidHeaderFieldValue(header) { // the server answers 400
			return
		}
		if got, want := parsed(header, size, most), referenceRanges(header, size, most); got != want {
			t.Errorf("%q of %d, at most %d: %s, want %s", header, size, most, got, want)
		}
	})
}
