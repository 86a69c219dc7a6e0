package fill

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/gateway/exchange"
	"allium/gateway/fill/origin"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config configures the sources of the group edge, and how they are filled.
// node/config/keys.txt says what each key means.
type Config struct {
	Mode      Mode          `koanf:"mode" hot:"true"`
	Fills     int           `koanf:"fills" hot:"true"`
	FillBytes limits.Bytes  `koanf:"fill_bytes" hot:"true"`
	MinFresh  time.Duration `koanf:"min_fresh" hot:"true"`
	MaxFresh  time.Duration `koanf:"max_fresh" hot:"true"`
	MaxStale  time.Duration `koanf:"max_stale" hot:"true"`

	Sources map[string]Source `koanf:"sources" hot:"true"` // at most MaxSources, by name
}

// Mode says whether origins are asked.
type Mode string

// The modes of the edge.
const (
	Live    Mode = "live"
	Offline Mode = "offline" // no DNS query and no connection to an origin leaves the process
)

// Source is a directory of the store, or an origin. Exactly one of Key, URL and URLs is set. The other fields are
// about an origin.
type Source struct {
	Key string `koanf:"key"` // address or name of a directory

	URL  string   `koanf:"url"`
	URLs []string `koanf:"urls"` // mirrors with the same paths, in the order in which they are tried

	Private     bool   `koanf:"private"`      // the origin may have a private address
	CAFile      string `koanf:"ca_file"`      // PEM; empty: the authorities of the machine
	RequireETag string `koanf:"require_etag"` // one of the ETag constants
	Announce    bool   `koanf:"announce"`     // this node is announced as a provider of fills
	Manifest    string `koanf:"manifest"`     // address or name of a directory with the expected objects
}

// Origins returns the base URLs of the origin, in the order in which they are tried. It is empty for a directory.
func (s Source) Origins() []string {
	if s.URL != "" {
		return []string{s.URL}
	}
	return s.URLs
}

// The values of Source.RequireETag: the validators that an answer of the origin must have.
const (
	ETagStrict = "strict" // a strong ETag
	ETagDate   = "date"   // a strong ETag or Last-Modified
	ETagAny    = "any"    // none: the bytes are fetched again and compared by their hash
)

// Bounds of Config.
const (
	MaxSources = 256 // of a node
	MaxURLs    = 8   // of a source

	maxURL = 2048 // bytes

	maxFills                  = 1024
	minFillBytes limits.Bytes = 1 << 20
	maxFillBytes limits.Bytes = 1 << 40

	longestFresh = 365 * 24 * time.Hour // and longest stale
)

// DefaultConfig returns the limits of SPEC §9 and no sources.
func DefaultConfig() Config {
	return Config{Mode: Live, Fills: 32, FillBytes: 1 << 30,
		MinFresh: 10 * time.Second, MaxFresh: 24 * time.Hour, MaxStale: time.Hour}
}

// DefaultSource returns a source that is neither a directory nor an origin yet, with the defaults of the other
// fields.
func DefaultSource() Source { return Source{RequireETag: ETagStrict} }

// Validate returns bad_request and names the keys with invalid values, one of each source.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, status.Errorf(status.BadRequest, format, args...))
	}
	if c.Mode != Live && c.Mode != Offline {
		bad("edge.mode is %q, must be %s or %s", c.Mode, Live, Offline)
	}
	if c.Fills < 1 || c.Fills > maxFills {
		bad("edge.fills is %d, must be 1 to %d", c.Fills, maxFills)
	}
	if c.FillBytes < minFillBytes || c.FillBytes > maxFillBytes {
		bad("edge.fill_bytes is %s, must be %s to %s", c.FillBytes, minFillBytes, maxFillBytes)
	}
	if c.MaxFresh < 0 || c.MaxFresh > longestFresh {
		bad("edge.max_fresh is %s, must be 0s to %s", c.MaxFresh, longestFresh)
	} else if c.MinFresh < 0 || c.MinFresh > c.MaxFresh {
		bad("edge.min_fresh is %s, must be 0s to edge.max_fresh (%s)", c.MinFresh, c.MaxFresh)
	}
	if c.MaxStale < 0 || c.MaxStale > longestFresh {
		bad("edge.max_stale is %s, must be 0s to %s", c.MaxStale, longestFresh)
	}
	if len(c.Sources) > MaxSources {
		bad("edge.sources has %d sources, must have at most %d", len(c.Sources), MaxSources)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		errs = append(errs, c.Sources[name].validate(name))
	}
	return errors.Join(errs...)
}

func (s Source) validate(name string) error {
	if err := exchange.CheckEntryName("edge.sources", name); err != nil {
		return err
	}
	entry := "edge.sources." + name
	bad := func(format string, args ...any) error {
		return status.Errorf(status.BadRequest, entry+format, args...)
	}
	set := 0
	for _, is := range []bool{s.Key != "", s.URL != "", len(s.URLs) > 0} {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return bad(" has none of key, url and urls. Set one of them")
	case set > 1:
		return bad(" has more than one of key, url and urls. Leave one alone")
	case len(s.URLs) > MaxURLs:
		return bad(".urls has %d URLs, must have at most %d", len(s.URLs), MaxURLs)
	case s.RequireETag != ETagStrict && s.RequireETag != ETagDate && s.RequireETag != ETagAny:
		return bad(".require_etag is %q, must be %s, %s or %s", s.RequireETag, ETagStrict, ETagDate, ETagAny)
	}
	if s.Key != "" {
		if field := s.originField(); field != "" {
			return bad(".%s is about an origin, and %s.key names a directory. Leave one of them out", field, entry)
		}
		return exchange.CheckContentKey(entry+".key", s.Key)
	}
	if err := exchange.CheckContentKey(entry+".manifest", s.Manifest); err != nil {
		return err
	}
	field := ".url"
	if s.URL == "" {
		field = ".urls"
	}
	for _, o := range s.Origins() {
		if problem := checkURL(o, s.Manifest != ""); problem != "" {
			return bad("%s is %s", field, problem)
		}
	}
	return nil
}

// originField returns the key of the first field that is about an origin and differs from its default.
func (s Source) originField() string {
	switch {
	case s.Private:
		return "private"
	case s.CAFile != "":
		return "ca_file"
	case s.RequireETag != ETagStrict:
		return "require_etag"
	case s.Announce:
		return "announce"
	case s.Manifest != "":
		return "manifest"
	}
	return ""
}

// checkURL returns the end of a sentence that begins "KEY is" if raw is not the base URL of an origin. It never
// shows credentials.
func checkURL(raw string, verified bool) string {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || u.Host == "" {
		if strings.Contains(raw, "@") {
			raw = "…"
		}
		return strconv.Quote(clip(raw)) + ", must be a URL such as https://origin.example/maps/"
	}
	shown := strconv.Quote(clip(u.Redacted()))
	port, portErr := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.User != nil:
		return "a URL with credentials, and an origin is asked without any. Take them out"
	case u.Scheme == "http" && !verified:
		return shown + ", must be an https URL. Only a source with a manifest may have an http one, " +
			"as its bytes are proved"
	case u.Scheme != "https" && u.Scheme != "http":
		return shown + ", must be an https URL"
	case strings.ContainsAny(raw, "?#"):
		return shown + ", must be a URL without a query (?) and a fragment (#)"
	case u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "%/\\"):
		return shown + ", must name a host"
	case u.Port() == "" && strings.HasSuffix(u.Host, ":") || u.Port() != "" && (portErr != nil || port == 0):
		return shown + ", must have a port from 1 to 65535, or none"
	case oddPath(u.Path):
		return shown + ", must have a path without . and .. and \\"
	case origin.CheckURL(raw, verified) != nil:
		return shown + ", must name its host by a name or by an address in the usual form, and have a path of at " +
			"most 1024 bytes without empty elements and escaped slashes"
	}
	return ""
}

// oddPath reports whether the path of a URL has an element that an origin may resolve to another path.
func oddPath(path string) bool {
	dots := func(name string) bool { return name == "." || name == ".." }
	return strings.ContainsAny(path, "\\\x00") || slices.ContainsFunc(strings.Split(path, "/"), dots)
}

// clip returns the beginning of a text for an error.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
