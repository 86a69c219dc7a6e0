package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// verbPath returns the path of a verb.
func verbPath(verb string) string { return "/api/v1/" + verb }

// query returns the parameters given as pairs of name and value. It leaves out empty
// values.
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

// Add implements Store. After an error the transport may still read from tar for a
// moment, so the caller must not use the reader again.
func (c *Client) Add(ctx context.Context, tar io.Reader, o api.AddOptions,
	progress api.ProgressFunc) iter.Seq2[api.Added, error] {
	header := http.Header{}
	if o.Roots != nil {
		header.Set(api.HeaderRoots, flag(true))
	}
	return sequence[api.Added](ctx, c, request{
		method: http.MethodPost, path: verbPath("add"), header: header, body: io.NopCloser(tar),
		progress: progress, roots: o.Roots,
		query: query(
			"no_pin", flag(o.NoPin), "label", o.Label, "rf", rf(o.Target), "ec", ec(o.Target),
			"on_bad_entry", string(o.OnBadEntry), "ordered", flag(o.Ordered),
		),
	})
}

// AskFirst implements Node.
func (c *Client) AskFirst(peers []string) (api.Node, error) {
	asking := *c
	asking.ask = peers
	return &asking, nil
}

// AskPeer implements Node.
func (c *Client) AskPeer(ctx context.Context, peer, key string) (api.PeerHas, error) {
	return value[api.PeerHas](ctx, c, http.MethodPost, verbPath("ask"), query("peer", peer, "key", key))
}

// asked returns the parameter for the peers of AskFirst.
func (c *Client) asked() string { return strings.Join(c.ask, ",") }

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) (*api.Stream, error) {
	s, err := c.stream(ctx, http.MethodGet, verbPath("get"), query("key", key, "ask", c.asked()), nil)
	if err == nil && c.socket != "" && s.Kind == api.File && s.Size >= api.LeastWriteFile {
		s.WriteFile = c.fileWriter(ctx, key, s)
	}
	return s, err
}

// Cat implements Store.
func (c *Client) Cat(ctx context.Context, key string, r b3.Range) (*api.Stream, error) {
	return c.stream(ctx, http.MethodGet, verbPath("cat"), query("key", key,
		"start", strconv.FormatInt(r.Start, 10), "end", strconv.FormatInt(r.End, 10), "ask", c.asked()), nil)
}

// List implements Store.
func (c *Client) List(ctx context.Context, key string) iter.Seq2[api.Entry, error] {
	return sequence[api.Entry](ctx, c, request{
		method: http.MethodGet, path: verbPath("ls"), query: query("key", key, "ask", c.asked()),
	})
}

// Stat implements Store.
func (c *Client) Stat(ctx context.Context, key string) (api.Stat, error) {
	return value[api.Stat](ctx, c, http.MethodGet, verbPath("stat"), query("key", key, "ask", c.asked()))
}

// Verify implements Store.
func (c *Client) Verify(ctx context.Context, key string, o api.VerifyOptions) iter.Seq2[api.Verified, error] {
	return sequence[api.Verified](ctx, c, request{
		method: http.MethodPost, path: verbPath("verify"), query: query("key", key, "repair", flag(o.Repair)),
	})
}

// Pin implements Store.
func (c *Client) Pin(ctx context.Context, key string, o api.PinOptions) (api.Pin, error) {
	return value[api.Pin](ctx, c, http.MethodPost, verbPath("pin/add"),
		query("key", key, "recursive", flag(o.Recursive), "label", o.Label, "rf", rf(o.Target), "ec", ec(o.Target)))
}

// Unpin implements Store.
func (c *Client) Unpin(ctx context.Context, key, label string) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, verbPath("pin/rm"), query("key", key, "label", label))
	return err
}

// Pins implements Store.
func (c *Client) Pins(ctx context.Context) iter.Seq2[api.Pin, error] {
	return sequence[api.Pin](ctx, c, request{method: http.MethodGet, path: verbPath("pin/ls")})
}

// Fetch implements Node.
func (c *Client) Fetch(ctx context.Context, key string, progress api.ProgressFunc) (api.Fetched, error) {
	return result[api.Fetched](ctx, c, request{
		method: http.MethodPost, path: verbPath("fetch"), query: query("key", key, "ask", c.asked()), progress: progress,
	}, noItems)
}

// noItems returns upstream for an item in the answer of a verb that has none.
func noItems(json.RawMessage) error {
	return status.Errorf(status.Upstream,
		"the node's answer has an item where none belongs; check that the node is of this version of allium")
}

// result returns the result of a verb that answers in lines.
func result[T any](ctx context.Context, c *Client, r request, item func(json.RawMessage) error) (v T, err error) {
	ok, err := c.lines(ctx, r, item)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(ok, &v); err != nil {
		return v, status.Errorf(status.Upstream, "the node's answer to %s is not what this version of allium expects: %w",
			r.path, err)
	}
	return v, nil
}

// lookup returns the parameters of a search for providers.
func lookup(key string, q api.Query, more ...string) url.Values {
	limit, freshness := "", ""
	if q.Limit != 0 {
		limit = strconv.Itoa(q.Limit)
	}
	if q.MinFreshness != 0 {
		freshness = q.MinFreshness.String()
	}
	stale := ""
	if q.MaxStale != 0 {
		stale = q.MaxStale.String()
	}
	return query(append(more, "key", key, "max_stale", stale, "limit", limit, "region", q.Region,
		"min_freshness", freshness, "fresh", flag(q.Fresh))...)
}

// Resolve implements Node.
func (c *Client) Resolve(ctx context.Context, key string, q api.Query) (api.Resolved, error) {
	return value[api.Resolved](ctx, c, http.MethodGet, verbPath("resolve"), lookup(key, q))
}

// FindProviders implements Node.
func (c *Client) FindProviders(ctx context.Context, key string, o api.FindOptions) iter.Seq2[api.Provider, error] {
	return sequence[api.Provider](ctx, c, request{
		method: http.MethodGet, path: verbPath("providers"), trace: o.Trace,
		query: lookup(key, o.Query, "trace", flag(o.Trace != nil)),
	})
}

// Providers is FindProviders with nothing but a limit.
func (c *Client) Providers(ctx context.Context, key string, limit int) iter.Seq2[api.Provider, error] {
	return c.FindProviders(ctx, key, api.FindOptions{Query: api.Query{Limit: limit}})
}

// Why implements Node.
func (c *Client) Why(ctx context.Context, keyOrID string) (api.Why, error) {
	return value[api.Why](ctx, c, http.MethodGet, verbPath("why"), query("key", keyOrID))
}

// Share implements Node.
func (c *Client) Share(ctx context.Context, key string, o api.ShareOptions) (api.Shared, error) {
	last := ""
	if o.For > 0 {
		last = o.For.String()
	}
	return value[api.Shared](ctx, c, http.MethodPost, verbPath("share"), query("key", key, "name", o.Name, "for", last))
}

// Announce implements Node.
func (c *Client) Announce(ctx context.Context, key string) (api.Announced, error) {
	return value[api.Announced](ctx, c, http.MethodPost, verbPath("announce"), query("key", key))
}

// ID implements Node.
func (c *Client) ID(ctx context.Context) (api.ID, error) {
	return value[api.ID](ctx, c, http.MethodGet, verbPath("id"), nil)
}

// Peers implements Node.
func (c *Client) Peers(ctx context.Context) ([]api.Peer, error) {
	return value[[]api.Peer](ctx, c, http.MethodGet, verbPath("peers"), nil)
}

// Reach implements Node.
func (c *Client) Reach(ctx context.Context) (api.Reach, error) {
	return value[api.Reach](ctx, c, http.MethodGet, verbPath("reach"), nil)
}

// Seeds implements Node.
func (c *Client) Seeds(ctx context.Context) (api.Seeds, error) {
	return value[api.Seeds](ctx, c, http.MethodGet, verbPath("seeds"), nil)
}

// Connect implements Node.
func (c *Client) Connect(ctx context.Context, addr string) (api.Peer, error) {
	return value[api.Peer](ctx, c, http.MethodPost, verbPath("connect"), query("addr", addr))
}

// Disconnect implements Node.
func (c *Client) Disconnect(ctx context.Context, peer string) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, verbPath("disconnect"), query("peer", peer))
	return err
}

// Ping implements Node.
func (c *Client) Ping(ctx context.Context, peer string) (api.Pong, error) {
	return value[api.Pong](ctx, c, http.MethodPost, verbPath("ping"), query("peer", peer))
}

// Reload implements Node.
func (c *Client) Reload(ctx context.Context) (api.Reloaded, error) { return c.Admin("").Reload(ctx) }

// Drain implements Node.
func (c *Client) Drain(ctx context.Context) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, verbPath("drain"), nil)
	return err
}

// Version returns the version of the node. It may differ from the command's.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	return value[api.Version](ctx, c, http.MethodGet, verbPath("version"), nil)
}

// Limits lists the node's bounds.
func (c *Client) Limits(ctx context.Context) (api.Limits, error) {
	return value[api.Limits](ctx, c, http.MethodGet, verbPath("limits"), nil)
}

// GC implements Store.
func (c *Client) GC(ctx context.Context, o api.GCOptions, progress api.ProgressFunc,
	removed func(api.GCObject) error) (api.GCReport, error) {
	return result[api.GCReport](ctx, c, request{
		method: http.MethodPost, path: verbPath("gc/run"), progress: progress,
		query: query("all", flag(o.All), "dry", flag(o.Dry), "fast", flag(o.Fast), "list", flag(o.List)),
	}, func(raw json.RawMessage) error {
		var v api.GCObject
		if err := json.Unmarshal(raw, &v); err != nil {
			return status.Errorf(status.Upstream, "the node's answer to gc/run is not what this version of allium expects: %w",
				err)
		}
		return removed(v)
	})
}

// GCWhy implements Store.
func (c *Client) GCWhy(ctx context.Context, key string) (api.GCWhy, error) {
	return value[api.GCWhy](ctx, c, http.MethodGet, verbPath("gc/why"), query("key", key))
}

// Damage implements Store.
func (c *Client) Damage(ctx context.Context) (api.DamageReport, error) {
	return value[api.DamageReport](ctx, c, http.MethodGet, verbPath("store/damage"), nil)
}

// AcceptDamage implements Store.
func (c *Client) AcceptDamage(ctx context.Context) (api.DamageReport, error) {
	return value[api.DamageReport](ctx, c, http.MethodPost, verbPath("store/damage/accept"), nil)
}

// StatStore implements Store.
func (c *Client) StatStore(ctx context.Context) (api.StoreStat, error) {
	return value[api.StoreStat](ctx, c, http.MethodGet, verbPath("store"), nil)
}

// Faults implements Node.
func (c *Client) Faults(ctx context.Context) (api.Faults, error) {
	return value[api.Faults](ctx, c, http.MethodGet, verbPath("faults"), nil)
}

// SetFaults implements Node.
func (c *Client) SetFaults(ctx context.Context, f api.Faults) (api.Faults, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return api.Faults{}, status.Errorf(status.BadRequest, "faults: %w", err) // a loss that is NaN or infinite
	}
	return send[api.Faults](ctx, c, http.MethodPost, verbPath("faults/set"), nil, bytes.NewReader(body))
}

// Diff implements Store.
func (c *Client) Diff(ctx context.Context, from, to string) iter.Seq2[api.Change, error] {
	return sequence[api.Change](ctx, c, request{
		method: http.MethodGet, path: verbPath("diff"), query: query("from", from, "to", to),
	})
}

// Keep implements Store.
func (c *Client) Keep(ctx context.Context, roots []b3.Root) ([]bool, error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	have, err := send[[]bool](ctx, c, http.MethodPost, verbPath("keep"), nil, body)
	if err == nil && len(have) != len(roots) {
		err = status.Errorf(status.Upstream, "the node answered keep for %d addresses of %d", len(have), len(roots))
	}
	return have, err
}

// Files implements Store.
func (c *Client) Files(ctx context.Context, roots []b3.Root) (*api.Stream, error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, http.MethodPost, verbPath("files"), nil, body)
}

// rootsBody returns the request body of Keep and Files: the digests, 32 bytes each.
// It returns bad_request for no roots, or more than api.MaxRoots.
func rootsBody(roots []b3.Root) (io.Reader, error) {
	if err := api.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	p := make([]byte, 0, len(roots)*b3.Size)
	for _, r := range roots {
		p = append(p, r[:]...)
	}
	return bytes.NewReader(p), nil
}
