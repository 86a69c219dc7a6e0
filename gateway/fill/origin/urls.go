package origin

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"allium/protocols/status"
)

// parseBase parses a base URL of a source. It returns an error that says what the URL must not have.
func parseBase(text string, plainHTTP bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the URL %q cannot be read: %w", text, err)
	case u.Scheme != "https" && (u.Scheme != "http" || !plainHTTP):
		return nil, fmt.Errorf("the URL %q does not begin with https://", text)
	case u.User != nil:
		return nil, fmt.Errorf("the URL %q has credentials, which are never sent. Leave them out", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, fmt.Errorf("the URL %q has a query or a fragment. Leave it out", text)
	}
	if err := checkHost(u); err != nil {
		return nil, err
	}
	base := strings.Trim(u.Path, "/")
	if base != "" && checkPath(base) != nil || u.RawPath != "" && strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return nil, fmt.Errorf("the URL %q has a path with empty or special segments", text)
	}
	u.Path, u.RawPath = base, ""
	return u, nil
}

// checkHost returns an error unless the host of u is a name, or an address in its usual form. A number in another form,
// such as 2130706433 or 0x7f.1, is an address to some programs and a name to others.
func checkHost(u *url.URL) error {
	host := u.Hostname()
	if host == "" || u.Opaque != "" {
		return fmt.Errorf("the URL %q has no host", u.Redacted())
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := strings.ToLower(labels[len(labels)-1])
	if last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") ||
		strings.ContainsAny(host, "%\\@[]: ") {
		return fmt.Errorf("the URL %q has the host %q, which is neither a name nor an address", u.Redacted(), host)
	}
	return nil
}

// checkPath returns bad_address for a path that could lead out of the base URL, or that programs read in different
// ways. A slash at its end is allowed, and so is the empty path.
func checkPath(path string) error {
	segments := strings.TrimSuffix(path, "/")
	switch {
	case len(path) > maxPath:
		return status.Errorf(status.BadAddress, "the path has %d bytes, more than %d", len(path), maxPath)
	case path == "":
		return nil
	case segments == "." || !fs.ValidPath(segments) || strings.Contains(path, `\`) ||
		strings.ContainsFunc(path, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return status.Errorf(status.BadAddress,
			"the path is invalid. Its segments are UTF-8 and none is empty, \".\" or \"..\"; none has "+
				"control characters or a backslash")
	}
	return nil
}

// join returns the URL of a path below a base URL. Each segment is escaped alone, so no path leads out of the base.
func join(base *url.URL, path string) *url.URL {
	u := *base
	whole := "/" + strings.TrimPrefix(base.Path+"/"+path, "/")
	var escaped strings.Builder
	for i, segment := range strings.Split(whole, "/") {
		if i > 0 {
			escaped.WriteByte('/')
		}
		escaped.WriteString(url.PathEscape(segment))
	}
	u.Path, u.RawPath = whole, escaped.String()
	return &u
}

// redirectTarget returns the URL to which an answer redirects. It returns an error unless the client may follow: the
// URL is https, has no credentials, and is at port 443 or at the host and port of own, a URL of the source.
func redirectTarget(resp *http.Response, from, own *url.URL) (*url.URL, error) {
	location := resp.Header.Get("Location")
	if location == "" || len(location) > maxLocation || len(resp.Header.Values("Location")) > 1 {
		return nil, fmt.Errorf("the redirect has no target, or none of a usual length")
	}
	to, err := from.Parse(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the redirect cannot be read: %w", err)
	case to.Scheme != "https":
		return nil, fmt.Errorf("the redirect leads to %q, not to https", to.Scheme)
	case to.User != nil:
		return nil, fmt.Errorf("the redirect has credentials")
	}
	to.Fragment, to.RawFragment = "", ""
	if err := checkHost(to); err != nil {
		return nil, err
	}
	if port := to.Port(); port != "" && port != "443" && (own.Scheme != "https" || to.Host != own.Host) {
		return nil, fmt.Errorf("the redirect leads to port %s", port)
	}
	if to.String() == from.String() {
		return nil, fmt.Errorf("the redirect leads to itself")
	}
	return to, nil
}
