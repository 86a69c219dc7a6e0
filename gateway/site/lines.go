package site

import (
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"allium/protocols/status"
)

// The bounds of _redirects and _headers.
const (
	MaxFile  = 64 << 10 // bytes of a file
	MaxRules = 1000     // rules of a file
)

// faulty returns the error of a line of a file, whose first line is 1.
func faulty(file string, line int, format string, args ...any) error {
	return status.Errorf(status.Upstream, "cannot serve this site: line %d of %s: %s. Its author must mend the file",
		line, file, fmt.Sprintf(format, args...))
}

// linesOf yields the lines of a file with their numbers, without line ends, comments and empty lines.
func linesOf(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, " \t\r\n")
			if start := strings.TrimLeft(line, " \t"); start == "" || start[0] == '#' {
				continue
			}
			if !yield(n, line) {
				return
			}
		}
	}
}

// checkText returns the error of a file that is too long, or no text of whole lines.
func checkText(file string, text []byte) error {
	switch {
	case len(text) > MaxFile:
		return status.Errorf(status.Upstream, "cannot serve this site: %s has more than %d bytes. "+
			"Its author must shorten it", file, MaxFile)
	case !utf8.Valid(text):
		return faulty(file, 1, "the file is not UTF-8")
	}
	n := 1
	for i, c := range text {
		switch {
		case c == '\n':
			n++
		case c == '\r' && i+1 < len(text) && text[i+1] == '\n', c == '\t':
		case c < ' ' || c == 0x7f:
			return faulty(file, n, "it has the control character %q", c)
		}
	}
	return nil
}

// pattern matches paths, segment by segment. A wildcard segment matches any one segment, and a splat at the end any
// number of them.
type pattern struct {
	segments []string // anySegment and a name for any segment
	splat    bool     // any segments follow
}

// anySegment begins a placeholder. No name of a file has this byte.
const anySegment = "\x00"

// splatName is the placeholder for what "*" matches.
const splatName = "splat"

// parsePattern parses a path such as /news/:year/*. The error has no outcome.
func parsePattern(text string) (p pattern, err error) {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return p, fmt.Errorf("%.80q is no path of this site; begin it with one slash", text)
	}
	if strings.ContainsAny(text, "?#") {
		return p, fmt.Errorf("%.80q has a query or a fragment, by which no rule can be chosen", text)
	}
	path := strings.Trim(text, "/")
	if path == "*" || strings.HasSuffix(path, "/*") {
		p.splat, path = true, strings.TrimSuffix(strings.TrimSuffix(path, "*"), "/")
	}
	if path == "" {
		return p, nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		name, any := strings.CutPrefix(segment, ":")
		switch {
		case any && (nameLength(name) != len(name) || name == "" || name == splatName):
			return p, fmt.Errorf("%.80q is no placeholder; one is : and letters, digits or _, and not :%s",
				segment, splatName)
		case any && p.stands(name):
			return p, fmt.Errorf("the placeholder %.80q comes twice", segment)
		case strings.Contains(segment, "*"):
			return p, fmt.Errorf("%.80q has a * that is not the whole last segment", text)
		}
		if any {
			segment = anySegment + name
		} else {
			if segment, err = url.PathUnescape(segment); err != nil {
				return p, fmt.Errorf("%.80q is not percent-encoded properly; write %%25 for a percent sign", text)
			}
			if segment == "." || segment == ".." || strings.ContainsAny(segment, "/\x00") {
				return p, fmt.Errorf("%.80q has a segment that is no file name", text)
			}
		}
		p.segments = append(p.segments, segment)
	}
	return p, nil
}

// stands reports whether a placeholder of that name stands for a segment.
func (p pattern) stands(name string) bool { return slices.Contains(p.segments, anySegment+name) }

// matches reports whether p matches a path of unescaped segments.
func (p pattern) matches(path []string) bool {
	if len(path) < len(p.segments) || len(path) > len(p.segments) && !p.splat {
		return false
	}
	for i, s := range p.segments {
		if path[i] != s && s[:min(len(s), 1)] != anySegment {
			return false
		}
	}
	return true
}

// value returns the segments that a placeholder of p stands for in a path that p matches.
func (p pattern) value(name string, path []string) []string {
	if name == splatName {
		return path[len(p.segments):]
	}
	i := slices.Index(p.segments, anySegment+name)
	return path[i : i+1]
}

// knows reports whether p has a placeholder of that name.
func (p pattern) knows(name string) bool { return name == splatName && p.splat || p.stands(name) }

// nameLength returns the length of the name of a placeholder at the beginning of s.
func nameLength(s string) int {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return i
		}
	}
	return len(s)
}
