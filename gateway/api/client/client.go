package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

// ErrNotRunning is in the chain of an error if no node listens at the target. The
// outcome of that error is not_ready, and its message says how to start a node.
var ErrNotRunning = errors.New("no node is running")

// Bounds of an answer that is not a stream of bytes.
const (
	maxLine = 1 << 20  // bytes of an NDJSON line or a problem
	maxJSON = 16 << 20 // bytes of a JSON value
)

// dialTimeout is the longest that a connection may take.
const dialTimeout = 5 * time.Second

// Client speaks the local API. It is safe for concurrent use.
type Client struct {
	api.Remote
	base   string // without a final slash
	socket string // path of the node's Unix socket; empty: it is reached over TCP

	token string
	http  *http.Client
	tr    *http.Transport

	// upload sends bodies that can be read only once, each over a new connection.
	// A node may close an idle connection just as a request reuses it, and net/http
	// cannot repeat a request with such a body.
	upload *http.Client
}

var _ api.Node = (*Client)(nil)

// Options of a client.
type Options struct {
	// Token is the capability sent with every POST. The Unix socket needs none.
	Token string
	// Starting, if not nil, reports whether a node that will listen at the Unix socket may be starting. While it does
	// and nobody listens, a request waits, at most startWait.
	Starting func() bool
}

// startWait limits the wait of a request for a node that starts. startPoll is the time between two attempts.
const (
	startWait = 2 * time.Second
	startPoll = 20 * time.Millisecond
)

// New is NewWith without options.
func New(target string) (*Client, error) { return NewWith(target, Options{}) }

// NewWith returns a client of the node at target: the path of its Unix socket (see
// [api.SocketPath]), or the "http://" or "https://" URL of its admin listener, which may have a path, of a proxy.
// NewWith does not dial. An invalid URL is bad_request.
func NewWith(target string, o Options) (*Client, error) {
	tr := &http.Transport{
		// 64 KiB is one chunk group, what a node writes at a time.
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
		MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second,
		DisableCompression: true,
	}
	c := &Client{token: o.Token, tr: tr, http: &http.Client{Transport: tr, CheckRedirect: refuseRedirect}}
	c.Remote = api.NewRemote(transport{c}, nil)
	dialer := &net.Dialer{Timeout: dialTimeout}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		u, err := url.Parse(target)
		if strings.Contains(target, "@") { // it may have a password, and is not shown
			return nil, status.Errorf(status.BadRequest, "the address of an admin listener has no user and no "+
				"password; write http://127.0.0.1:9600, and give a capability as the token")
		}
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, status.Errorf(status.BadRequest, "%q is not the address of an admin listener; write "+
				"http://127.0.0.1:9600", target)
		}
		c.base = strings.TrimSuffix(target, "/")
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			return conn, dialError(err, target)
		}
		c.upload = withoutKeepAlives(c.http, tr)
		return c, nil
	}
	c.base, c.socket = "http://allium", target
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		for begun := time.Now(); ; {
			var conn net.Conn
			err := api.CheckSocketDir(filepath.Dir(target)) // the first start of a node makes it
			if err == nil {
				conn, err = dialer.DialContext(ctx, "unix", target)
			}
			err = dialError(err, target)
			if !errors.Is(err, ErrNotRunning) || o.Starting == nil || time.Since(begun) >= startWait || !o.Starting() ||
				limits.Sleep(ctx, startPoll) != nil {
				return conn, err
			}
		}
	}
	c.upload = withoutKeepAlives(c.http, tr)
	return c, nil
}

// withoutKeepAlives returns a copy of h that uses a new connection for each request.
func withoutKeepAlives(h *http.Client, tr *http.Transport) *http.Client {
	tr = tr.Clone()
	tr.DisableKeepAlives = true
	return &http.Client{Transport: tr, CheckRedirect: h.CheckRedirect}
}

// Close closes idle connections. Requests in flight continue until their contexts end.
func (c *Client) Close() { c.tr.CloseIdleConnections() }

// refuseRedirect returns a redirect as the answer. The API has no redirects, so
// another server sent it.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialError gives the error of a failed dial its outcome: not_ready when no node
// listens, forbidden when another user owns the socket.
func dialError(err error, target string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		fix := "start one with `allium run`"
		if strings.Contains(target, "://") {
			fix = "open the tunnel to its admin listener, or start it with `allium run`"
		}
		return &status.Error{
			Outcome: status.NotReady, Err: ErrNotRunning,
			Message: fmt.Sprintf("no node is running at %s; %s", target, fix),
		}
	case errors.Is(err, fs.ErrPermission):
		return status.Errorf(status.Forbidden, "the node at %s belongs to another user: %w", target, err)
	}
	return err
}

// call sends one request and returns its answer with status 200. Any other status
// is an error. The caller closes the body.
func (c *Client) call(ctx context.Context, method, path string, q url.Values, body io.Reader) (*http.Response, error) {
	return c.callWith(ctx, method, path, q, nil, body)
}

// callWith is call with headers.
func (c *Client) callWith(ctx context.Context, method, path string, q url.Values, header http.Header,
	body io.Reader) (*http.Response, error) {
	u := c.base + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, fmt.Errorf("client: %s: %w", path, err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("TE", "trailers")
	if end, ok := ctx.Deadline(); ok { // how long the node waits for sources is the caller's choice then
		req.Header.Set("Request-Timeout", strconv.FormatFloat(max(time.Until(end).Seconds(), 0.001), 'f', 3, 64))
	}
	if c.token != "" && method != http.MethodGet {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	h := c.http
	if body != nil && req.GetBody == nil {
		h = c.upload
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, callError(ctx, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problemOf(resp, path)
}

// callError returns why an answer is missing or cut, without the URL that net/http
// adds: the cause of ctx if it ended, otherwise an error with an outcome.
func callError(ctx context.Context, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("client: %s: %w", verbOf(path), cause)
	}
	var s *status.Error
	if errors.As(err, &s) {
		return s
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return status.Errorf(status.TransportDown, "the node's answer to %s was cut (%w); see whether it still runs",
		verbOf(path), err)
}

// verbOf returns the verb of a path, for messages.
func verbOf(path string) string { return strings.TrimPrefix(path, api.PathPrefix) }

// unexpected returns the error for an answer that this version does not understand.
func unexpected(path string, err error) error {
	return status.Errorf(status.Upstream, "the node's answer to %s is not what this version of allium expects: %w",
		verbOf(path), err)
}

// problemOf turns an error answer back into the node's error.
func problemOf(resp *http.Response, path string) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	if err != nil {
		return status.Errorf(status.TransportDown, "the node's answer to %s was cut: %w", verbOf(path), err)
	}
	var p api.Problem
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "application/problem+json" ||
		json.Unmarshal(raw, &p) != nil {
		return status.Errorf(status.Upstream, "what answered %s with %s is not an allium node",
			verbOf(path), resp.Status)
	}
	return p.Report().Err(resp.StatusCode)
}

// value sends a request and stores the JSON value of its answer in what v points to.
func (c *Client) value(
	ctx context.Context, method, path string, q url.Values, header http.Header, body io.Reader, v any,
) error {
	resp, err := c.callWith(ctx, method, path, q, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	if err != nil {
		return callError(ctx, path, err)
	}
	return decode(path, raw, v)
}
