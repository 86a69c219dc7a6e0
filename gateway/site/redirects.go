package site

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// RedirectsFile is the name of the file of rules in the root of a site.
const RedirectsFile = "_redirects"

// Redirects are the rules of a file _redirects, in its order. A nil *Redirects has no rules. It is immutable.
type Redirects struct{ rules []rule }

// rule is a line of the file.
type rule struct {
	from pattern
	to   []piece
	code int
	out  bool // to is a URL of another site
}

// piece is a part of a target: text, or a placeholder in the pattern.
type piece struct {
	text string
	name string // of the placeholder; empty: text
}

// Action says how a rule answers. Code is 200, 301, 302, 303, 307, 308, 404, 410 or 451.
type Action struct {
	Code int
	// To is an escaped path of this site, which begins with one slash, with a query or fragment perhaps; for a redirect
	// it may also be a URL with http or https. It is the page of codes other than those of a redirect.
	To string
}

// Redirects reports whether the client is sent to To. Otherwise the file at To is the answer.
func (a Action) Redirects() bool { return a.Code/100 == 3 }

// codes are those that a rule may have.
var codes = map[int]bool{
	http.StatusOK: true, http.StatusMovedPermanently: true, http.StatusFound: true, http.StatusSeeOther: true,
	http.StatusTemporaryRedirect: true, http.StatusPermanentRedirect: true,
	http.StatusNotFound: true, http.StatusGone: true, http.StatusUnavailableForLegalReasons: true,
}

// ParseRedirects parses a file _redirects. Each line is FROM TO and perhaps a code, 301 if there is none, and # begins
// a comment. The error is upstream and names the line.
func ParseRedirects(text []byte) (*Redirects, error) {
	if err := checkText(RedirectsFile, text); err != nil {
		return nil, err
	}
	r := &Redirects{}
	for n, line := range linesOf(string(text)) {
		if len(r.rules) == MaxRules {
			return nil, faulty(RedirectsFile, n, "the file has more than %d rules", MaxRules)
		}
		one, err := parseRule(strings.Fields(line))
		if err != nil {
			return nil, faulty(RedirectsFile, n, "%v", err)
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

// parseRule parses the words of a line. Its errors have no outcome.
func parseRule(words []string) (r rule, err error) {
	for i, w := range words {
		if w[0] == '#' && i >= 2 {
			words = words[:i]
			break
		}
	}
	if len(words) < 2 {
		return r, fmt.Errorf("%.80q has no target; write FROM TO CODE", words[0])
	}
	if r.from, err = parsePattern(words[0]); err != nil {
		return r, err
	}
	r.code = http.StatusMovedPermanently
	switch len(words) {
	case 2:
	case 3:
		if strings.HasSuffix(words[2], "!") {
			return r, fmt.Errorf("%.80q forces the rule over files that are there, which is not possible", words[2])
		}
		code, err := strconv.Atoi(words[2])
		if err != nil || !codes[code] {
			return r, fmt.Errorf("%.80q is none of 200, 301, 302, 303, 307, 308, 404, 410 and 451", words[2])
		}
		r.code = code
	default:
		return r, fmt.Errorf("it has more than FROM, TO and a code; conditions and queries are not possible")
	}
	return r, r.parseTarget(words[1])
}

// parseTarget sets to.
func (r *rule) parseTarget(text string) error {
	rest := text
	if scheme, after, found := strings.Cut(text, "://"); found && !strings.HasPrefix(text, "/") {
		u, err := url.Parse(text)
		host, _, _ := strings.Cut(after, "/")
		switch {
		case err != nil || u.Host == "" || u.User != nil || scheme != "http" && scheme != "https" ||
			u.Host != host || strings.ContainsAny(host, "*\\"):
			return fmt.Errorf("%.80q is no URL with http or https and a host", text)
		case r.code/100 != 3:
			return fmt.Errorf("%.80q is on another site; only a redirect leads there", text)
		}
		r.out = true
		r.to, rest = append(r.to, piece{text: scheme + "://" + host}), after[len(host):]
	} else if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.HasPrefix(text, `/\`) {
		return fmt.Errorf("%.80q is neither a path that begins with one slash nor a URL", text)
	}
	for {
		i := strings.IndexByte(rest, ':')
		length := 0
		if i >= 0 {
			length = nameLength(rest[i+1:])
		}
		if i < 0 || length == 0 {
			r.to = append(r.to, piece{text: escapeTarget(rest)})
			return nil
		}
		name := rest[i+1 : i+1+length]
		if !r.from.knows(name) {
			return fmt.Errorf("the target has :%.80s, and the path does not", name)
		}
		r.to = append(r.to, piece{text: escapeTarget(rest[:i])}, piece{name: name})
		rest = rest[i+1+length:]
	}
}

// escapeTarget escapes the bytes of a target that a URL must not have. It leaves percent signs as they are.
func escapeTarget(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// target returns the target for a path that the rule matches.
func (r *rule) target(path []string) string {
	var b strings.Builder
	for _, p := range r.to {
		b.WriteString(p.text)
		if p.name == "" {
			continue
		}
		for i, s := range r.from.value(p.name, path) {
			if i > 0 {
				b.WriteByte('/')
			}
			b.WriteString(url.PathEscape(s))
		}
	}
	to := b.String()
	if !r.out { // an empty placeholder must not make a host of a segment
		to = "/" + strings.TrimLeft(to, "/")
	}
	return to
}

// Matching finds the rules for one request. No rule is found twice, so rewriting ends. The zero Matching has no rules.
type Matching struct {
	rules *Redirects
	used  [(MaxRules + 63) / 64]uint64
}

// Begin returns the Matching of a request.
func (r *Redirects) Begin() Matching { return Matching{rules: r} }

// Next returns what the first rule asks for that matches the unescaped segments of a path, of those that were not found
// before.
func (m *Matching) Next(path []string) (Action, bool) {
	if m.rules == nil {
		return Action{}, false
	}
	for i := range m.rules.rules {
		r := &m.rules.rules[i]
		if m.used[i/64]&(1<<(i%64)) != 0 || !r.from.matches(path) {
			continue
		}
		m.used[i/64] |= 1 << (i % 64)
		return Action{r.code, r.target(path)}, true
	}
	return Action{}, false
}
