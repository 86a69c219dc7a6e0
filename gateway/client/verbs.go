package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"allium/protocols/status"
)

// api is the path of a verb.
func api(verb string) string { return "/api/v1/" + verb }

// query makes parameters of name, value pairs and leaves out empty values.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func flag(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// Add implements Store. The tar may still be read for a moment after the
// sequence ended with an error; its reader must not be used again.
func (c *Client) Add(ctx context.Context, tar io.Reader, o AddOptions, progress ProgressFunc) iter.Seq2[Added, error] {
	return sequence[Added](ctx, c, request{
		method: http.MethodPost, path: api("add"), body: io.NopCloser(tar), progress: progress,
		query: query("no_pin", flag(o.NoPin), "label", o.Label),
	})
}

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) (*Stream, error) {
	return c.stream(ctx, http.MethodGet, api("get"), query("key", key), nil)
}

// Cat implements Store.
func (c *Client) Cat(ctx context.Context, key string, r Range) (*Stream, error) {
	return c.stream(ctx, http.MethodGet, api("cat"), query("key", key,
		"start", strconv.FormatInt(r.Start, 10), "end", strconv.FormatInt(r.End, 10)), nil)
}

// List implements Store.
func (c *Client) List(ctx context.Context, key string) iter.Seq2[Entry, error] {
	return sequence[Entry](ctx, c, request{method: http.MethodGet, path: api("ls"), query: query("key", key)})
}

// Stat implements Store.
func (c *Client) Stat(ctx context.Context, key string) (Stat, error) {
	return value[Stat](ctx, c, http.MethodGet, api("stat"), query("key", key))
}

// Verify implements Store.
func (c *Client) Verify(ctx context.Context, key string, o VerifyOptions) iter.Seq2[Verified, error] {
	return sequence[Verified](ctx, c, request{method: http.MethodPost, path: api("verify"), query: query("key", key, "repair", flag(o.Repair))})
}

// Pin implements Store.
func (c *Client) Pin(ctx context.Context, key string, o PinOptions) (Pin, error) {
	return value[Pin](ctx, c, http.MethodPost, api("pin/add"), query("key", key, "recursive", flag(o.Recursive), "label", o.Label))
}

// Unpin implements Store.
func (c *Client) Unpin(ctx context.Context, key, label string) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, api("pin/rm"), query("key", key, "label", label))
	return err
}

// Pins implements Store.
func (c *Client) Pins(ctx context.Context) iter.Seq2[Pin, error] {
	return sequence[Pin](ctx, c, request{method: http.MethodGet, path: api("pin/ls")})
}

// Fetch implements Node.
func (c *Client) Fetch(ctx context.Context, key string, progress ProgressFunc) (Fetched, error) {
	var f Fetched
	ok, err := c.lines(ctx, request{method: http.MethodPost, path: api("fetch"), query: query("key", key), progress: progress},
		func(json.RawMessage) error { return errors.New("an item in a fetch") })
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(ok, &f); err != nil {
		return f, status.Errorf(status.Upstream, "the node's answer to fetch is not what this version of allium expects: %w", err)
	}
	return f, nil
}

// FindProviders implements Node.
func (c *Client) FindProviders(ctx context.Context, key string, o FindOptions) iter.Seq2[Provider, error] {
	n := ""
	if o.Limit > 0 {
		n = strconv.Itoa(o.Limit)
	}
	return sequence[Provider](ctx, c, request{
		method: http.MethodGet, path: api("providers"), trace: o.Trace,
		query: query("key", key, "limit", n, "fresh", flag(o.Fresh), "trace", flag(o.Trace != nil)),
	})
}

// Providers is FindProviders with nothing but a limit.
func (c *Client) Providers(ctx context.Context, key string, limit int) iter.Seq2[Provider, error] {
	return c.FindProviders(ctx, key, FindOptions{Limit: limit})
}

// Announce implements Node.
func (c *Client) Announce(ctx context.Context, key string) (Announced, error) {
	return value[Announced](ctx, c, http.MethodPost, api("announce"), query("key", key))
}

// ID implements Node.
func (c *Client) ID(ctx context.Context) (ID, error) {
	return value[ID](ctx, c, http.MethodGet, api("id"), nil)
}

// Peers implements Node.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return value[[]Peer](ctx, c, http.MethodGet, api("peers"), nil)
}

// Seeds implements Node.
func (c *Client) Seeds(ctx context.Context) (Seeds, error) {
	return value[Seeds](ctx, c, http.MethodGet, api("seeds"), nil)
}

// Connect implements Node.
func (c *Client) Connect(ctx context.Context, addr string) (Peer, error) {
	return value[Peer](ctx, c, http.MethodPost, api("connect"), query("addr", addr))
}

// Disconnect implements Node.
func (c *Client) Disconnect(ctx context.Context, peer string) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, api("disconnect"), query("peer", peer))
	return err
}

// Ping implements Node.
func (c *Client) Ping(ctx context.Context, peer string) (Pong, error) {
	return value[Pong](ctx, c, http.MethodPost, api("ping"), query("peer", peer))
}

// Reload implements Node.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) { return c.Admin("").Reload(ctx) }

// Drain implements Node.
func (c *Client) Drain(ctx context.Context) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, api("drain"), nil)
	return err
}

// Version is the version of the node that answers, which need not be the
// command's.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return value[Version](ctx, c, http.MethodGet, api("version"), nil)
}

// Limits lists the node's bounds.
func (c *Client) Limits(ctx context.Context) (Limits, error) {
	return value[Limits](ctx, c, http.MethodGet, api("limits"), nil)
}
