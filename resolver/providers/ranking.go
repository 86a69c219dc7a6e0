package providers

import (
	"slices"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/resolver/trace"
)

// rank describes providers and sorts them.
func (p *Pool) rank(root b3.Root, found []record.Provider) *ranking {
	now, clock := time.Now(), p.now()
	r := &ranking{
		epoch: p.peers.epoch.Load(), providers: make([]Provider, len(found)), at: trace.InstantOf(now),
	}
	for i := range found {
		r.providers[i] = p.describe(root, found[i])
	}
	for i := range r.providers {
		p.write(&r.providers[i])
	}
	Rank(r.providers, func(d Provider) Traits { return p.traits(&d, now, clock) })
	r.usable, r.sure = p.peers.usable(r.providers[0].ID), best(r.providers)
	return r
}

// write sets the text of a provider. All answers share the addresses and the text of this node, because
// they would be most of the memory of an answer for what it stores.
func (k *known) write(d *Provider) {
	if d.Origin != record.OriginLocal {
		d.Text = textOf(&d.Provider)
		return
	}
	own := k.own.Load()
	if own == nil || !slices.EqualFunc(own.addrs, d.Addrs, ma.Multiaddr.Equal) {
		own = &ownText{d.Addrs, textOf(&d.Provider)}
		k.own.Store(own)
	}
	d.Addrs, d.Text = own.addrs, own.text
}

// ownText holds the addresses at which this node listens, and the text of them.
type ownText struct {
	addrs []ma.Multiaddr
	text  Text
}

// textOf returns the text of a provider.
func textOf(p *record.Provider) Text {
	t := Text{ID: p.ID.String(), Addrs: make([]string, len(p.Addrs))}
	for i, a := range p.Addrs {
		t.Addrs[i] = a.String()
	}
	return t
}

// rerank sorts a remembered answer again, because peers behaved differently since.
func rerank(p *Pool, root b3.Root, old *ranking) *ranking {
	found := make([]record.Provider, len(old.providers))
	for i := range found {
		found[i] = old.providers[i].Provider
	}
	r := p.rank(root, found)
	r.complete, r.at, r.expires = old.complete, old.at, old.expires
	p.cache.rerank(root, old, r)
	return r
}

// describe adds what this node knows of a provider.
func (p *Pool) describe(root b3.Root, found record.Provider) Provider {
	d := Provider{Provider: found, Confidence: answer.Hint}
	if p.about != nil {
		f := p.about(found.ID)
		d.Region, d.RTT = f.Region, f.RTT
		if len(d.Addrs) == 0 {
			d.Addrs = f.Addrs
		}
	}
	if to := p.peers.peek(found.ID); d.RTT == 0 && to != nil {
		_, d.RTT = to.Measured()
	}
	switch by, ok := p.served.Peek(root); {
	case found.Origin == record.OriginLocal, ok && by == found.ID:
		d.Confidence = answer.Served
	case lookedUp(&found):
		d.Confidence = answer.Signed
	}
	return d
}

// lookedUp reports whether a provider was found by a lookup: in the DHT, or by a peer that gave its
// signed record.
func lookedUp(p *record.Provider) bool {
	return p.Origin == record.OriginDHT || p.Origin == record.OriginServed && p.Proof != nil
}

// traits returns what the rank of a provider depends on. clock dates records.
func (p *Pool) traits(d *Provider, now, clock time.Time) Traits {
	if d.Origin == record.OriginLocal {
		return Traits{Served: true, RTT: 1, Rate: 1 << 30}
	}
	t := p.peers.traits(d.ID, now)
	if t.RTT == 0 {
		t.RTT = d.RTT
	}
	t.Served = d.Confidence == answer.Served || d.Origin == record.OriginServed && d.Proof == nil
	t.OtherRegion = p.region != "" && d.Region != p.region
	t.Age = ageOf(&d.Provider, clock)
	return t
}
