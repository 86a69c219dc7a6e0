package local

import (
	"cmp"
	"context"
	"iter"
	"math"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/protocols/address"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/own"
)

// ExpandName implements api.Node.
func (a *Node) ExpandName(ctx context.Context, text string) (string, error) {
	n, err := a.expand(ctx, text)
	if err != nil {
		return "", err
	}
	return n.String(), nil
}

// expand returns the name that text stands for. A label alone is in the only own zone.
func (a *Node) expand(ctx context.Context, text string) (name.Name, error) {
	if strings.Contains(text, ".") {
		label, rest, err := name.Split(text)
		if err != nil {
			return name.Name{}, err
		}
		if zone, ok := a.deps.Names.Petname(rest); ok {
			return name.Name{Label: label, Zone: zone}, nil
		}
		return a.deps.Keys.Expand(ctx, text)
	}
	label, err := name.ParseLabel(text)
	if err != nil {
		return name.Name{}, err
	}
	zone, err := a.deps.Names.OnlyZone()
	return name.Name{Label: label, Zone: zone}, err
}

// FollowName returns the name that text stands for, as ExpandName does, and has the node take up
// each new record of it that peers announce, until release is called.
func (a *Node) FollowName(ctx context.Context, text string) (full string, release func(), err error) {
	n, err := a.expand(ctx, text)
	if err != nil {
		return "", nil, err
	}
	release, err = a.deps.Resolver.FollowName(n)
	return n.String(), release, err
}

// PublishName implements api.Node.
func (a *Node) PublishName(ctx context.Context, r api.PublishRequest) (api.OwnName, error) {
	n, err := a.expand(ctx, r.Name)
	if err != nil {
		return api.OwnName{}, err
	}
	if err := a.deps.Filter("publish").Name(n); err != nil {
		return api.OwnName{}, err
	}
	if key, ok := address.Digits(r.Value); ok {
		r.Value = key
	}
	v, err := name.ParseValue(r.Value)
	if err != nil {
		return api.OwnName{}, err
	}
	root, _, isAddress := v.Address()
	if isAddress {
		if err := a.deps.Filter("publish").Object(root); err != nil {
			return api.OwnName{}, err
		}
	}
	if other, ok := v.Alias(); ok && other == n {
		return api.OwnName{}, status.Errorf(status.BadRequest, "the name would stand for itself")
	}
	st, err := a.deps.Names.Publish(ctx, own.Request{
		Name: n, Value: v,
		TTL:  cmp.Or(fromMilliseconds(r.TTLMS), name.DefaultTTL),
		Life: cmp.Or(fromMilliseconds(r.LifeMS), name.DefaultLife),
	})
	if err != nil {
		return api.OwnName{}, err
	}
	own := a.ownName(st)
	if isAddress {
		_, err := a.st.Stat(ctx, root)
		own.Missing = status.Of(err) == status.NotFound
	}
	return own, nil
}

// fromMilliseconds returns n milliseconds. A number that no duration can hold becomes the longest
// duration, or its negative, which every bound refuses.
func fromMilliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// WithdrawName implements api.Node.
func (a *Node) WithdrawName(ctx context.Context, r api.WithdrawRequest) (api.OwnName, error) {
	n, err := a.expand(ctx, r.Name)
	if err != nil {
		return api.OwnName{}, err
	}
	st, err := a.deps.Names.Withdraw(ctx, n)
	if err != nil {
		return api.OwnName{}, err
	}
	return a.ownName(st), nil
}

// OwnNames implements api.Node.
func (a *Node) OwnNames(context.Context) iter.Seq2[api.OwnName, error] {
	return func(yield func(api.OwnName, error) bool) {
		short := map[name.Zone]name.Label{}
		for _, st := range a.deps.Names.List() {
			if _, ok := short[st.Name.Zone]; !ok {
				short[st.Name.Zone] = a.deps.Names.Short(st.Name.Zone)
			}
			if !yield(ownName(st, short[st.Name.Zone]), nil) {
				return
			}
		}
	}
}

// ownName returns a published name for the API.
func (a *Node) ownName(st own.State) api.OwnName {
	return ownName(st, a.deps.Names.Short(st.Name.Zone))
}

func ownName(st own.State, short name.Label) api.OwnName {
	own := api.OwnName{
		Name: st.Name.String(), Value: st.Value.String(), Seq: st.Seq, NotAfter: st.NotAfter,
		TTLMS: st.TTL.Milliseconds(), Peers: st.Acks, Sent: utc(st.Sent), Due: utc(st.Due), Problem: string(st.Problem),
	}
	if !short.IsZero() {
		own.Short = st.Name.Label.String() + "." + short.String()
	}
	if st.Failed != nil {
		rep := status.ReportOf(st.Failed)
		own.Error = &rep
	}
	return own
}

// utc returns a time in whole milliseconds of UTC; the zero time stays zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}
