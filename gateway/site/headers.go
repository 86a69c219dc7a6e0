package site

import (
	"net/http"
	"strings"
)

// HeadersFile is the name of the file of headers in the root of a site.
const HeadersFile = "_headers"

// maxHeaders bounds the names and values of the headers of one answer, in bytes.
const maxHeaders = 8 << 10

// allowed are the headers that a site may set. The others are the gateway's own, or act beyond the site's origin:
// Set-Cookie, Clear-Site-Data, Strict-Transport-Security, Alt-Svc, Report-To.
var allowed = map[string]bool{
	"Access-Control-Allow-Credentials": true, "Access-Control-Allow-Headers": true,
	"Access-Control-Allow-Methods": true, "Access-Control-Allow-Origin": true, "Access-Control-Expose-Headers": true,
	"Access-Control-Max-Age": true, "Cache-Control": true, "Content-Language": true, "Content-Security-Policy": true,
	"Content-Security-Policy-Report-Only": true, "Cross-Origin-Embedder-Policy": true,
	"Cross-Origin-Embedder-Policy-Report-Only": true, "Cross-Origin-Opener-Policy": true,
	"Cross-Origin-Opener-Policy-Report-Only": true, "Cross-Origin-Resource-Policy": true, "Link": true,
	"Permissions-Policy": true, "Referrer-Policy": true, "Service-Worker-Allowed": true, "Sourcemap": true,
	"Timing-Allow-Origin": true, "X-Content-Type-Options": true, "X-Frame-Options": true, "X-Robots-Tag": true,
	"X-Xss-Protection": true,
}

// Allowed reports whether a site may set a header of that name, in any case.
func Allowed(header string) bool { return allowed[http.CanonicalHeaderKey(header)] }

// Headers are the rules of a file _headers. A nil *Headers has none. It is immutable.
type Headers struct{ rules []headerRule }

// headerRule is a path of the file with its headers.
type headerRule struct {
	path    pattern
	headers []Header
}

// Header is a header of an answer. Name is in the form of [http.CanonicalHeaderKey].
type Header struct{ Name, Value string }

// ParseHeaders parses a file _headers. A line that begins with a slash is a path, and the indented lines below it are
// its headers, NAME: VALUE. # begins a comment. The error is upstream and names the line.
func ParseHeaders(text []byte) (*Headers, error) {
	if err := checkText(HeadersFile, text); err != nil {
		return nil, err
	}
	h := &Headers{}
	count := 0
	for n, line := range linesOf(string(text)) {
		if count++; count > MaxRules {
			return nil, faulty(HeadersFile, n, "the file has more than %d rules", MaxRules)
		}
		if line[0] != ' ' && line[0] != '\t' {
			p, err := parsePattern(line)
			if err != nil {
				return nil, faulty(HeadersFile, n, "%v", err)
			}
			h.rules = append(h.rules, headerRule{path: p})
			continue
		}
		if len(h.rules) == 0 {
			return nil, faulty(HeadersFile, n, "a header comes before the first path")
		}
		header, problem := parseHeader(strings.TrimSpace(line))
		if problem != "" {
			return nil, faulty(HeadersFile, n, "%s", problem)
		}
		last := &h.rules[len(h.rules)-1]
		last.headers = append(last.headers, header)
	}
	return h, nil
}

// parseHeader parses NAME: VALUE, and returns what is wrong with it.
func parseHeader(line string) (h Header, problem string) {
	name, value, found := strings.Cut(line, ":")
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !found || name == "" || value == "":
		return h, "it is no header; write NAME: VALUE"
	case !allowed[name]:
		return h, "a site may not set the header " + clip(name)
	case len(value) > maxHeaders:
		return h, "the value of " + name + " is too long"
	case name == "X-Content-Type-Options" && value != "nosniff":
		return h, "X-Content-Type-Options has the one value nosniff"
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= 0x7f {
			return h, "the value of " + name + " has a character that is not ASCII"
		}
	}
	return Header{name, value}, ""
}

func clip(s string) string { return s[:min(len(s), 80)] }

// For returns the headers of a path of unescaped segments, each name once: the values of all rules that match are put
// together with commas. Beyond 8 KiB it returns no more.
func (h *Headers) For(path []string) (all []Header) {
	if h == nil {
		return nil
	}
	left := maxHeaders
	for _, r := range h.rules {
		if !r.path.matches(path) {
			continue
		}
		for _, one := range r.headers {
			if left -= len(one.Name) + len(one.Value); left < 0 {
				return all
			}
			all = add(all, one)
		}
	}
	return all
}

// add adds a header to those of an answer.
func add(all []Header, one Header) []Header {
	for i := range all {
		if all[i].Name == one.Name {
			all[i].Value += ", " + one.Value
			return all
		}
	}
	return append(all, one)
}
