package origin

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// Config configures a Client.
type Config struct {
	Source string   // the name of the source, for errors
	URLs   []string // base URLs of mirrors with the same paths, at least one

	Private   bool           // the mirrors may have loopback, private, shared, link-local and unique local addresses
	PlainHTTP bool           // base URLs may be http: the caller proves every byte
	Roots     *x509.CertPool // the authorities to trust; nil: those of the machine
	MaxBytes  int64          // the largest body
	UserAgent string         // such as "allium/v1.0.0"
	Params    Params
}

// Deps are the parts that a Client uses. Each may be nil.
type Deps struct {
	// Life ends requests when it ends, with its cause: those that run and all later ones. From then on the Client
	// connects to nobody and looks nothing up.
	Life     *Life
	Resolver *net.Resolver // looks hosts up; nil: the resolver of the machine
	Retried  func()        // called before each further try
	TimedOut func()        // called when an origin was too slow
	Refused  func()        // called for the first request that breaker_open refuses, once until the source works again
}

// Client asks the mirrors of one source. Its methods may be called from any goroutine.
type Client struct {
	cfg       Config
	deps      Deps
	bases     []*url.URL
	transport *http.Transport
	breaker   *breaker
	distrust  *distrust
	refused   atomic.Bool // Deps.Refused was called, and no request has succeeded since
}

// New returns a Client. It looks nothing up and connects to nobody. The error says which URL is malformed. The caller
// closes the Client.
func New(cfg Config, d Deps) (*Client, error) {
	if len(cfg.URLs) == 0 {
		return nil, errors.New("the source has no URL")
	}
	c := &Client{cfg: cfg, deps: d}
	for _, text := range cfg.URLs {
		base, err := parseBase(text, cfg.PlainHTTP)
		if err != nil {
			return nil, err
		}
		c.bases = append(c.bases, base)
	}
	if c.deps.Retried == nil {
		c.deps.Retried = func() {}
	}
	if c.deps.TimedOut == nil {
		c.deps.TimedOut = func() {}
	}
	if c.deps.Refused == nil {
		c.deps.Refused = func() {}
	}
	c.transport = newTransport(cfg.Private, cfg.Roots, c.deps, cfg.Params)
	var err error
	if c.distrust, err = newDistrust(); err != nil {
		return nil, err
	}
	c.breaker, err = newBreaker(cfg.Params)
	return c, err
}

// Close closes the idle connections. Requests that run are ended by their contexts.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Mirrors returns the number of mirrors.
func (c *Client) Mirrors() int { return len(c.bases) }

// Request is a request for one path.
type Request struct {
	Path string // unescaped, below the base URL, without a slash at its beginning; see [CheckPath]

	Except []int // mirrors that are not asked
	// ETag and LastModified validate a stored copy, with If-None-Match and If-Modified-Since. Empty: there is none.
	ETag, LastModified string
	// Proved means that the caller compares the bytes with a known hash. Then the end of a body may be the end of its
	// connection, and a mirror that does not have the path is not the last word.
	Proved bool
}

// CheckPath returns bad_address for a path that a Client refuses: one with more than 1,024 bytes, or with segments that
// are not UTF-8, empty, "." or "..", or with a backslash or control characters. A slash at the end is allowed.
func CheckPath(path string) error { return checkPath(path) }

// CheckURL returns an error that says why New refuses a base URL, if it does. plainHTTP is that of Config.
func CheckURL(text string, plainHTTP bool) error {
	_, err := parseBase(text, plainHTTP)
	return err
}

// Get asks the mirrors for a path, those that lied after the others. It returns an Answer whose first byte has arrived,
// or one that says that the copy is current. The errors are:
//
//   - bad_address for a path that CheckPath refuses
//   - not_found, if the origin says so with 404 or 410
//   - not_allowed, if the address or the redirect is one that the source must not use
//   - upstream, if the origin answers anything else, cannot be reached, or breaks a rule of this package
//   - timeout, if no byte arrived within Params.FirstByte
//   - breaker_open, if the source failed too often
//   - corrupt, if every mirror lied about the path a short time ago
//   - the error of ctx if that ends, and that of Deps.Life
func (c *Client) Get(ctx context.Context, r Request) (*Answer, error) {
	if err := checkPath(r.Path); err != nil {
		return nil, err
	}
	order, err := c.order(r, time.Now())
	if err != nil {
		return nil, err
	}
	settle, err := c.breaker.Allow()
	if err != nil {
		if !c.refused.Swap(true) {
			c.deps.Refused()
		}
		return nil, &status.Error{
			Outcome: status.BreakerOpen,
			Message: "the source " + c.cfg.Source + " failed too often; it is asked again after a pause",
			Limit:   &status.Limit{Name: "edge.breaker", RetryAfter: c.cfg.Params.BreakerCooldown},
			Err:     err,
		}
	}
	ctx, end := c.deps.Life.Within(ctx)
	done := func(err error) {
		end()
		settle(c.breaker.verdict(r.Path, err))
	}
	settled := false
	defer func() { // after a panic too: a half-open breaker counts its probes
		if !settled {
			done(errPanicked)
		}
	}()
	a, err := c.tries(ctx, r, order)
	settled = true
	if ended := c.deps.Life.Err(); err != nil && ended != nil { // a dial may have ended before ctx
		err = ended
	}
	switch {
	case err != nil:
		done(err)
		return nil, err
	case a.Body == nil:
		done(nil)
	default:
		a.Body.done = done
	}
	c.refused.Store(false)
	return a, nil
}

// errPanicked tells the breaker that a request panicked.
var errPanicked = status.Errorf(status.Internal, "the request panicked")

// Failing reports whether err means that the source does not work now: it timed out, it could not be reached, it broke
// off or answered 5xx or 429, or its breaker is open. A stored copy may be shown in its place.
func Failing(err error) bool {
	var f *failure
	if errors.As(err, &f) {
		return f.failing
	}
	return status.Of(err) == status.BreakerOpen
}

// Repeated reports whether err, of a request that has ended, is a failure of a path that has failed within the last
// Params.BreakerWindow.
func Repeated(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.repeated
}

// failure is the error of a request to an origin.
type failure struct {
	said    *status.Error // what a client may see
	failing bool          // see Failing
	retry   bool          // a further try at the same mirror may help
	after   time.Duration // Retry-After; 0: none

	// answered means that a connection was made and the time was enough: another path may do better.
	answered bool
	repeated bool // see Repeated
}

// outcome returns that of the failure, OK for nil.
func (f *failure) outcome() status.Outcome {
	if f == nil {
		return status.OK
	}
	return f.said.Outcome
}

// Error returns the message for clients.
func (f *failure) Error() string { return f.said.Error() }

// Unwrap returns the status.Error, which has the outcome.
func (f *failure) Unwrap() error { return f.said }

// Cause returns why a request to an origin failed, for the log: it may name addresses. It returns err if that has no
// cause.
func Cause(err error) error {
	var f *failure
	if errors.As(err, &f) && f.said.Err != nil {
		return f.said.Err
	}
	return err
}

// fail returns a failure. what ends the sentence that begins with the name of the source. Clients do not see cause.
func (c *Client) fail(o status.Outcome, detail, what string, cause error) *failure {
	return &failure{said: &status.Error{
		Outcome: o, Detail: detail, Message: "cannot fill from the source " + c.cfg.Source + ": " + what, Err: cause,
	}}
}
