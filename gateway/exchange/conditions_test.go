package exchange

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestConditions compares with http.ServeContent, whose conditions are right.
func TestConditions(t *testing.T) {
	t.Parallel()
	const etag = `"b3:aa"`
	lists := []string{
		"", "*", `"b3:aa"`, `W/"b3:aa"`, `"b3:bb"`, `"b3:bb", "b3:aa"`, `"b3:bb" , W/"b3:aa"`, `"x","y"`,
		`b3:aa`, `"b3:aa`, `,`, `, "b3:aa"`, `""`, `"", "b3:aa"`, `W/*`, ` "b3:aa" `,
		`"b3:bb" "b3:aa"`, `"b3:bb"x, "b3:aa"`,
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, im := range lists {
			for _, inm := range lists {
				for _, ir := range []string{"", etag, `W/"b3:aa"`, `"b3:bb"`, "Tue, 01 Jan 2030 00:00:00 GMT", "*"} {
					r := httptest.NewRequest(method, "/", nil)
					r.Header.Set("Range", "bytes=1-2")
					for name, v := range map[string]string{"If-Match": im, "If-None-Match": inm, "If-Range": ir} {
						if v != "" {
							r.Header.Set(name, v)
						}
					}
					rec := httptest.NewRecorder()
					rec.Header().Set("ETag", etag)
					http.ServeContent(rec, r, "", time.Time{}, strings.NewReader("hello"))

					got := Evaluate(r, etag).Code()
					if got == http.StatusOK && RangeApplies(r, etag, time.Time{}) {
						got = http.StatusPartialContent
					}
					if got != rec.Code {
						t.Errorf("%s If-Match: %s | If-None-Match: %s | If-Range: %s: %d, net/http says %d", method, im,
							inm, ir, got,
							rec.Code)
					}
					if KnownFresh(r, etag) && got != http.StatusNotModified {
						t.Errorf("If-Match: %s | If-None-Match: %s: known to be fresh, but %d", im, inm, got)
					}
				}
			}
		}
	}
}

func TestConditionsOfAWeakTag(t *testing.T) {
	t.Parallel()
	const etag = `W/"page"`
	for _, c := range []struct {
		name, value string
		want        status.Outcome
	}{
		{"If-None-Match", `W/"page"`, status.NotModified},
		{"If-None-Match", `"page"`, status.NotModified},
		{"If-None-Match", `"other"`, status.OK},
		{"If-Match", `W/"page"`, status.Precondition},
		{"If-Match", `"page"`, status.Precondition},
		{"If-Match", `*`, status.OK},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(c.name, c.value)
		if got := Evaluate(r, etag); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.name, c.value, got, c.want)
		}
	}
}

// TestDates: a date counts where no entity tag is sent, and where the representation has one.
func TestDates(t *testing.T) {
	t.Parallel()
	const etag, old, same = `"page"`, "Fri, 31 Dec 1999 23:59:59 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"
	const young = "Tue, 01 Jan 2030 00:00:00 GMT"
	for _, c := range []struct {
		modified time.Time
		headers  map[string]string
		want     status.Outcome
		ranged   bool
	}{
		{LongAgo, map[string]string{"If-Modified-Since": same}, status.NotModified, true},
		{LongAgo, map[string]string{"If-Modified-Since": young}, status.NotModified, true},
		{LongAgo, map[string]string{"If-Modified-Since": old}, status.OK, true},
		{LongAgo, map[string]string{"If-Modified-Since": "yesterday"}, status.OK, true},
		{time.Time{}, map[string]string{"If-Modified-Since": young}, status.OK, true},
		{LongAgo, map[string]string{"If-Modified-Since": young, "If-None-Match": `"x"`}, status.OK, true},
		{LongAgo, map[string]string{"If-Modified-Since": old, "If-None-Match": etag}, status.NotModified, true},
		{LongAgo, map[string]string{"If-Modified-Since": young, "If-Match": `"x"`}, status.Precondition, true},
		{LongAgo, map[string]string{"If-Range": same}, status.OK, true},
		{LongAgo, map[string]string{"If-Range": young}, status.OK, false},
		{time.Time{}, map[string]string{"If-Range": same}, status.OK, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		if got, ranged := EvaluateDated(r, etag, c.modified), RangeApplies(r, etag, c.modified); got != c.want ||
			ranged != c.ranged {
			t.Errorf("%v: %s, a range applies: %t", c.headers, got, ranged)
		}
	}
}

// TestDatedConditions compares with http.ServeContent of a representation with a date.
func TestDatedConditions(t *testing.T) {
	t.Parallel()
	const etag, other = `"page"`, `"other"`
	dates := []string{
		"", "Fri, 31 Dec 1999 23:59:59 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", "Saturday, 01-Jan-00 00:00:00 GMT",
		"Sat Jan  1 00:00:00 2000", "Tue, 01 Jan 2030 00:00:00 GMT", "yesterday", "0",
	}
	tags := []string{"", etag, other, "*"}
	for _, im := range tags {
		for _, ius := range dates {
			for _, inm := range tags {
				for _, ims := range dates {
					for _, ir := range append(tags[1:3:3], dates...) {
						r := httptest.NewRequest(http.MethodGet, "/", nil)
						r.Header.Set("Range", "bytes=1-2")
						for name, v := range map[string]string{"If-Match": im,
							"If-Unmodified-Since": ius, "If-None-Match": inm,
							"If-Modified-Since": ims, "If-Range": ir} {
							if v != "" {
								r.Header.Set(name, v)
							}
						}
						rec := httptest.NewRecorder()
						rec.Header().Set("ETag", etag)
						http.ServeContent(rec, r, "", LongAgo, strings.NewReader("hello"))
						got := EvaluateDated(r, etag, LongAgo).Code()
						if got == http.StatusOK && RangeApplies(r, etag, LongAgo) {
							got = http.StatusPartialContent
						}
						if got != rec.Code || KnownFresh(r, etag) && got != http.StatusNotModified {
							t.Fatalf("%v: %d, net/http says %d", r.Header, got, rec.Code)
						}
					}
				}
			}
		}
	}
}

func FuzzListed(f *testing.F) {
	f.Add(`"a", W/"b"`, `"a"`, true)
	f.Add(`*`, `W/"a"`, false)
	f.Add(`"unclosed`, `"a"`, false)
	f.Fuzz(func(t *testing.T, list, etag string, strong bool) {
		if strong && MatchesTag([]string{list}, etag, true) && !MatchesTag([]string{list}, etag, false) {
			t.Errorf("%q lists %q strongly, not weakly", list, etag)
		}
	})
}
