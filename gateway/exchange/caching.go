package exchange

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxStaleness is the most that a request may allow: no record of a name lives longer.
const maxStaleness = 30 * 24 * time.Hour

// CacheDirectives yields the names of the Cache-Control directives of a request in lower case, each
// with its value, which is empty if there is none.
func CacheDirectives(r *http.Request) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, line := range r.Header["Cache-Control"] { // the canonical key
			for directive := range strings.SplitSeq(line, ",") {
				name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
				if !yield(strings.ToLower(name), strings.Trim(value, `"`)) {
					return
				}
			}
		}
	}
}

// OnlyIfCached reports whether the request forbids asking others than this node (RFC 9111 §5.2.1.7).
func OnlyIfCached(r *http.Request) bool {
	for name := range CacheDirectives(r) {
		if name == "only-if-cached" {
			return true
		}
	}
	return false
}

// MaxAge returns the Cache-Control of an answer that caches may keep for d, in whole seconds and at least 0.
func MaxAge(d time.Duration) string {
	return "public, max-age=" + strconv.FormatInt(max(0, int64(d/time.Second)), 10)
}

// MaxStale returns how stale an answer the client takes by the directive max-stale of Cache-Control
// (RFC 9111 §5.2.1.2): its value in seconds, or as stale as can be without a value. It is 0 for a
// request without the directive or with another value, and at most 30 days.
func MaxStale(r *http.Request) (most time.Duration) {
	for name, value := range CacheDirectives(r) {
		if name != "max-stale" {
			continue
		}
		if value == "" {
			return maxStaleness
		}
		if n, err := strconv.ParseUint(value, 10, 31); err == nil {
			most = min(time.Duration(n)*time.Second, maxStaleness)
		}
	}
	return most
}
